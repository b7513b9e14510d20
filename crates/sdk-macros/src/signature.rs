//! What a durable function takes and returns, and the code that follows from it.

use proc_macro2::TokenStream;
use quote::quote;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned as _;
use syn::{Error, FnArg, Ident, Pat, PatIdent, Result, ReturnType, Token, Type};

/// Whose function is called.
#[derive(Clone, Copy)]
pub(crate) enum Component {
    Own,
    Other,
}

/// An argument.
pub(crate) struct Argument {
    pub(crate) name: Ident,
    /// As it was written.
    pub(crate) written: Type,
    /// What is decoded for it.
    pub(crate) owned: TokenStream,
    /// Whether the function takes a reference to it.
    pub(crate) by_reference: bool,
}

impl Argument {
    /// Its name, for people.
    pub(crate) fn shown(&self) -> String {
        self.name.to_string().replace("r#", "")
    }
}

pub(crate) fn arguments(inputs: &Punctuated<FnArg, Token![,]>) -> Result<Vec<Argument>> {
    inputs.iter().map(argument).collect()
}

fn argument(input: &FnArg) -> Result<Argument> {
    let typed = match input {
        FnArg::Typed(typed) => typed,
        other => {
            return Err(Error::new(
                other.span(),
                "a durable function has no `self`: each call starts from its arguments alone",
            ));
        }
    };
    let Pat::Ident(PatIdent { ident, .. }) = &*typed.pat else {
        return Err(Error::new(
            typed.pat.span(),
            "give the argument a name: `name::call(…)` has the same arguments",
        ));
    };
    let (owned, by_reference) = match &*typed.ty {
        Type::Reference(reference) if reference.mutability.is_some() => {
            return Err(Error::new(
                reference.span(),
                "a durable function cannot change its caller's values: return the new value",
            ));
        }
        Type::Reference(reference) => match &*reference.elem {
            Type::Path(path) if path.path.is_ident("str") => (quote!(::std::string::String), true),
            Type::Slice(slice) => {
                let element = &slice.elem;
                (quote!(::std::vec::Vec<#element>), true)
            }
            other => (quote!(#other), true),
        },
        Type::ImplTrait(ty) => {
            return Err(Error::new(ty.span(), "name the type: the journal needs a concrete one"));
        }
        other => (quote!(#other), false),
    };
    Ok(Argument { name: ident.clone(), written: (*typed.ty).clone(), owned, by_reference })
}

/// The type that a call's promise has, and whether the function returns a `Result`.
pub(crate) fn output(output: &ReturnType) -> Result<(TokenStream, bool)> {
    let ReturnType::Type(_, ty) = output else { return Ok((quote!(()), false)) };
    match &**ty {
        Type::Path(path)
            if path.path.segments.last().is_some_and(|last| last.ident == "Result") =>
        {
            Ok((quote!(<#ty as ::indelible_sdk::__private::Fallible>::Output), true))
        }
        Type::ImplTrait(ty) => {
            Err(Error::new(ty.span(), "name the type: the journal needs a concrete one"))
        }
        ty => Ok((quote!(#ty), false)),
    }
}

/// The type that is decoded for a call: the counterpart of [`encoded`].
pub(crate) fn taken(arguments: &[Argument]) -> TokenStream {
    match arguments {
        [] => quote!(()),
        [Argument { owned, .. }] => quote!(#owned),
        several => {
            let types = several.iter().map(|argument| &argument.owned);
            quote!((#(#types),*))
        }
    }
}

/// What is encoded for a call: nothing, the argument itself, or a tuple of references.
pub(crate) fn encoded(arguments: &[Argument]) -> TokenStream {
    match arguments {
        [] => quote!(()),
        [Argument { name, .. }] => quote!(#name),
        several => {
            let names = several.iter().map(|argument| &argument.name);
            quote!((#(&#names),*))
        }
    }
}

/// `struct name {}` with `call`: it stands beside a function of the same name, because a struct
/// with braces is only a type. A function of the
/// component itself must be listed in `guest!`.
pub(crate) fn caller(
    attributes: &TokenStream,
    visibility: &syn::Visibility,
    name: &Ident,
    arguments: &[Argument],
    promised: &TokenStream,
    callee: &str,
    of: Component,
) -> TokenStream {
    let names = arguments.iter().map(|argument| &argument.name);
    let types = arguments.iter().map(|argument| &argument.written);
    let input = encoded(arguments);
    let call = match of {
        Component::Own => quote!(::indelible_sdk::__private::call_own::<#name, _>(&#input)),
        Component::Other => quote!(::indelible_sdk::call_remote(#callee, &#input)),
    };
    let doc = format!("Starts a durable call of `{callee}`, which goes on by itself.");
    quote! {
        #attributes
        #[allow(non_camel_case_types, dead_code, missing_docs)]
        #visibility struct #name {}

        #[allow(dead_code)]
        impl #name {
            #[doc = #doc]
            #[allow(unreachable_pub, clippy::needless_pass_by_value)]
            pub fn call(#(#names: #types),*) -> ::indelible_sdk::Promise<#promised> {
                #call
            }
        }
    }
}
