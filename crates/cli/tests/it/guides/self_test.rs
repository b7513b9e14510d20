//! Whether the runner can fail: guides that are wrong, and say so.

use crate::guides::page::Page;
use crate::guides::reader::{patch, read};

/// Reads a guide of its own name.
fn check(name: &str, text: &str) -> Result<(), String> {
    read(name, &Page::parse(text).unwrap())
}

/// What is wrong with a guide.
fn mistake(name: &str, text: &str) -> String {
    check(name, text).unwrap_err()
}

/// Variables, folders and files stay from block to block, and what is printed is what stands there.
#[test]
fn a_guide_that_is_right() {
    let text = "\
```sh
name=tea; mkdir shop; cd shop
```

<!-- file: shop/list -->
```toml
tea
milk
```

<!-- patch: shop/list -->
```diff
 tea
-milk
+bread
```

<!-- sh
echo hidden > hidden
-->

```sh
echo \"$name\"; echo $$; pwd; echo wrong >&2
cat list hidden
```

```text
tea
…
…/work/shop
wrong
tea
bread
hidden
```

```sh fails=3
false; (exit 3)
```

<!-- shows: shop/list -->
```toml
tea
bread
```
";
    check("self-right", text).unwrap();
}

/// Output that is not what stands there is a mistake, told with its line.
#[test]
fn wrong_output() {
    let said = mistake("self-output", "text\n\n```sh\necho tea\n```\n```text\nmilk\n```\n");
    assert!(said.starts_with("4: it prints something else"), "{said}");
    assert!(said.contains("--- block\necho tea\n--- expected\nmilk\n--- printed\ntea\n"), "{said}");
}

/// A command that fails is a mistake, also if one that does not follows it.
#[test]
fn wrong_exit_codes() {
    let said = mistake("self-code", "```sh\necho tea\n(exit 4)\ntrue\n```\n");
    assert!(said.starts_with("2: the command of line 3 ends with 4, and not with 0"), "{said}");
    assert!(said.contains("--- printed\ntea\n"), "{said}");
    let said = mistake("self-code", "```sh\nfalse | cat\n```\n");
    assert!(said.contains("ends with 1, and not with 0"), "{said}");
    let said = mistake("self-code", "```sh\nno-such-program-here\n```\n");
    assert!(said.contains("ends with 127"), "{said}");
    let said = mistake("self-code", "```sh fails=3\n(exit 4)\n```\n");
    assert!(said.starts_with("2: it ends with 4, and not with 3"), "{said}");
    let said = mistake("self-code", "```sh fails=3\ntrue\n```\n");
    assert!(said.starts_with("2: it ends with 0, and not with 3"), "{said}");
    let said = mistake("self-code", "```sh\nexit 0\n```\n");
    assert!(said.starts_with("2: it ends the shell"), "{said}");
    let said = mistake("self-code", "```sh\nif true\n```\n");
    assert!(said.starts_with("2: "), "{said}");
}

/// Files that are not what the guide says.
#[test]
fn wrong_files() {
    let said = mistake("self-files", "<!-- shows: a -->\n```toml\nx\n```\n");
    assert!(said.starts_with("3: a says something else"), "{said}");
    let said = mistake("self-files", "<!-- file: a, as Cargo.toml -->\n```toml\nx\n```\n");
    assert!(said.starts_with("3: it is not Cargo.toml"), "{said}");
    assert_eq!(patch("a\nb\n", " a\n-b\n+c\n"), Ok("a\nc\n".to_owned()));
    assert!(patch("a\na\n", "-a\n+b\n").unwrap_err().contains("2 times"));
    assert!(patch("a\n", "-b\n").unwrap_err().contains("0 times"));
}

/// A server goes on beside the commands, is heard, and dies when it is killed.
#[test]
fn servers() {
    let right = "\
```sh server
echo $$ > pid; echo \"listening on 127.0.0.1:7070\"; while :; do sleep 1; done
```

```text
listening on 127.0.0.1:7070
```

```sh
kill -9 \"$(cat pid)\"
```

```sh server
cat pid; sleep 1000
```
";
    check("self-server", right).unwrap();
    // With a line that is awaited: its first line alone could be seen before it has ended.
    let ends = "```sh server\necho no; exit 1\n```\n\n```text\nyes\n```\n";
    let said = mistake("self-server", ends);
    assert!(said.starts_with("2: the server ends"), "{said}");
    assert!(said.contains("--- printed\nno\n"), "{said}");
}
