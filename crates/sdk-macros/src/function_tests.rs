//! Every mistake has an explanation, and what is right expands to the same items.

use quote::quote;

use super::*;

fn why(options: TokenStream, item: TokenStream) -> String {
    expand(options, item).unwrap_err().to_string()
}

#[test]
fn mistakes_in_functions() {
    for (item, explained) in [
        (
            quote!(
                async fn f() {}
            ),
            "is not `async`",
        ),
        (
            quote!(
                fn f<T>(value: T) {}
            ),
            "cannot be generic",
        ),
        (
            quote!(
                fn f<'a>(value: &'a str) {}
            ),
            "cannot be generic",
        ),
        (
            quote!(
                fn f(&self) {}
            ),
            "no `self`",
        ),
        (
            quote!(
                fn f(value: &mut u8) {}
            ),
            "return the new value",
        ),
        (
            quote!(
                fn f((a, b): (u8, u8)) {}
            ),
            "give the argument a name",
        ),
        (
            quote!(
                fn f(value: impl Into<u8>) {}
            ),
            "name the type",
        ),
        (
            quote!(
                fn f() -> impl Into<u8> {}
            ),
            "name the type",
        ),
        (
            quote!(
                extern "C" fn f() {}
            ),
            "ordinary Rust function",
        ),
        (
            quote!(
                struct F;
            ),
            "only a function",
        ),
    ] {
        let error = why(quote!(), item);
        assert!(error.contains(explained), "{error}");
    }
}

#[test]
fn mistakes_in_options() {
    for (options, explained) in [
        (quote!(idempotent), "unknown option"),
        (quote!(idem = true), "takes no value"),
        (quote!(idem, idem), "twice"),
        (quote!(retries), "retries = 5"),
        (quote!(retries = forever), "`unbounded`"),
        (quote!(backoff = "1s"), "1s..60s"),
        (quote!(deadline = 10), "string in quotes"),
        (quote!(deadline = "10 weeks"), "not a duration"),
        (quote!(name = "a b"), "is not a valid name"),
    ] {
        let error = why(
            options,
            quote!(
                fn f() {}
            ),
        );
        assert!(error.contains(explained), "{error}");
    }
}

/// Options and doc comment reach the definition.
#[test]
fn definition_of_a_function() {
    let options = quote!(
        idem,
        volatile,
        retries = unbounded,
        backoff = "5ms..1s",
        deadline = "1m",
        name = "g-1"
    );
    let item = quote! {
        /// Adds.
        /// Twice.
        pub fn f(a: u8, b: &str) -> Result<u8, String> { Ok(a) }
    };
    let text = expand(options, item).unwrap().to_string();
    for part in [
        "name : \"g-1\"",
        "description : \"Adds.\\nTwice.\"",
        "persist : false",
        "idem : true",
        "retries_max : :: core :: option :: Option :: None",
        "backoff_base : 5000u64",
        "backoff_cap : 1000000u64",
        "deadline : :: core :: option :: Option :: Some (60000000u64)",
        "pub struct f { }",
        "pub fn call (a : u8 , b : & str)",
        "\"g-1(a, b)\"",
        "f (argument_0 , & argument_1)",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

/// An argument may be called like the function itself.
#[test]
fn argument_named_like_the_function() {
    let text = expand(
        quote!(),
        quote!(
            fn f(f: u8) -> u8 {
                f
            }
        ),
    )
    .unwrap()
    .to_string();
    assert!(text.contains("let argument_0 ="), "{text}");
    assert!(text.contains("f (argument_0)"), "{text}");
}

/// The defaults: durable, not `idem`, three retries.
#[test]
fn defaults() {
    let text = expand(
        quote!(),
        quote!(
            fn f() {}
        ),
    )
    .unwrap()
    .to_string();
    for part in [
        "persist : true",
        "idem : false",
        "Some (3u32)",
        "backoff_base : 1000000u64",
        "backoff_cap : 60000000u64",
        "deadline : :: core :: option :: Option :: None",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}
