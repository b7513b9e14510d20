//! The process that compiles: `indelible` starts itself again for each deployed component, so that
//! the time and memory of a compilation are bounded.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use indelible_runtime::guest::{Compiler, compile_for_parent};

/// The first argument of that process. It is no documented command.
const ARGUMENT: &str = "compile-for-server";

/// How the process is started.
pub(crate) fn compiler() -> Compiler {
    // On Linux this is the running file, even if another was installed in its place.
    let program = if cfg!(target_os = "linux") {
        Ok(PathBuf::from("/proc/self/exe"))
    } else {
        std::env::current_exe()
    };
    // The allocator would reserve a gigabyte of address space, which is limited.
    let environment = vec![("MIMALLOC_ARENA_RESERVE".into(), "0".into())];
    match program {
        Ok(program) => Compiler::Process { program, arguments: vec![ARGUMENT.into()], environment },
        Err(_) => Compiler::Here,
    }
}

/// Compiles, if this process was started for that.
pub(crate) fn run_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != ARGUMENT {
        return None;
    }
    let numbers = arguments.map(|argument| argument.to_string_lossy().into_owned());
    Some(match compile_for_parent(numbers) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The server has closed stderr; a person who runs this by hand sees the message.
            _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    })
}
