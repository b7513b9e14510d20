//! The process that compiles: `indelible` starts itself anew for each component that is deployed, so
//! that the time and the memory of that are bounded.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use indelible_runtime::guest::{Compiler, compile_for_parent};

/// The first argument of that process. It is no command: people have no use for it.
const ARGUMENT: &str = "compile-for-server";

/// How the process is started.
pub(crate) fn compiler() -> Compiler {
    // On Linux this is the very file that runs now, also when another was installed in its place.
    let program = if cfg!(target_os = "linux") {
        Ok(PathBuf::from("/proc/self/exe"))
    } else {
        std::env::current_exe()
    };
    // The allocator would reserve a gigabyte of address space at once, which is what is limited.
    let environment = vec![("MIMALLOC_ARENA_RESERVE".into(), "0".into())];
    match program {
        Ok(program) => Compiler::Process { program, arguments: vec![ARGUMENT.into()], environment },
        Err(_) => Compiler::Here,
    }
}

/// Does what that process does, if this is it.
pub(crate) fn run_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != ARGUMENT {
        return None;
    }
    let numbers = arguments.map(|argument| argument.to_string_lossy().into_owned());
    Some(match compile_for_parent(numbers) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The server has closed it; a person who tries it is told.
            _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    })
}
