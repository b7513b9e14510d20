//! `#[function]`: leaves the function as it is, and adds how to call it and how to run it.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{Attribute, Error, Expr, ExprLit, Item, ItemFn, Lit, Meta, Result};

use crate::options::Options;
use crate::signature::{self, Argument};

pub(crate) fn expand(options: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let options = Options::parse(options)?;
    let item: Item = syn::parse2(item)?;
    let Item::Fn(item) = item else {
        return Err(Error::new(item.span(), "only a function can be durable: put it above a `fn`"));
    };
    check(&item)?;
    let arguments = signature::arguments(&item.sig.inputs)?;
    let (promised, fallible) = signature::output(&item.sig.output)?;
    let name = &item.sig.ident;
    let callee = options.name.clone().unwrap_or_else(|| name.to_string().replace("r#", ""));
    let description = description(&item.attrs);
    let doc = format!("The durable function `{callee}`.");
    let doc = quote!(#[doc = #doc]);
    let (vis, own) = (&item.vis, signature::Component::Own);
    let caller = signature::caller(&doc, vis, name, &arguments, &promised, &callee, own);
    let schemas = schemas(&options, &arguments, &promised);
    let definition = definition(&options, &callee, &description);
    let run = run(&item, &callee, &arguments, fallible);
    let span = name.span();
    let listed = quote_spanned! {span=>
        const _: () = {
            const fn listed<T: ::indelible_sdk::__private::Listed>() {}
            listed::<#name>();
        };
    };
    Ok(quote! {
        #[allow(dead_code)]
        #item
        #caller
        impl ::indelible_sdk::__private::Function for #name {
            const DEFINITION: ::indelible_sdk::__private::Definition =
                ::indelible_sdk::__private::Definition { #definition #schemas run: #run };
        }
        #listed
    })
}

/// What a durable function cannot be.
fn check(item: &ItemFn) -> Result<()> {
    let signature = &item.sig;
    let wrong = |span, why: &str| Err(Error::new(span, why));
    if let Some(token) = &signature.asyncness {
        return wrong(
            token.span(),
            "a durable function is not `async`: calls return promises, and `wait` suspends the \
             whole function",
        );
    }
    if !signature.generics.params.is_empty() {
        return wrong(
            signature.generics.span(),
            "a durable function cannot be generic: callers know it by its name alone",
        );
    }
    if let Some(variadic) = &signature.variadic {
        return wrong(variadic.span(), "a durable function has a fixed number of arguments");
    }
    if let Some(abi) = &signature.abi {
        return wrong(abi.span(), "a durable function is an ordinary Rust function");
    }
    Ok(())
}

/// The doc comment, without its indentation.
fn description(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    });
    let lines: Vec<String> = lines.map(|line| line.trim().to_owned()).collect();
    lines.join("\n").trim().to_owned()
}

fn definition(options: &Options, name: &str, description: &str) -> TokenStream {
    let Options { idem, volatile, retries_max, backoff: (base, cap), deadline, .. } = options;
    let persist = !volatile;
    let retries = option(retries_max.as_ref());
    let deadline = option(deadline.as_ref());
    quote! {
        name: #name,
        description: #description,
        persist: #persist,
        idem: #idem,
        retries_max: #retries,
        backoff_base: #base,
        backoff_cap: #cap,
        deadline: #deadline,
    }
}

/// Closures that make the schemas: those of the options, or those of the types. A function has none
/// of a type that lacks `JsonSchema`.
fn schemas(options: &Options, arguments: &[Argument], promised: &TokenStream) -> TokenStream {
    let given =
        |text: &Expr| quote!(|| ::core::option::Option::Some(::std::string::String::from(#text)));
    let made = |made: TokenStream| {
        quote!(|| {
            #[allow(unused_imports)]
            use ::indelible_sdk::__private::NoSchemas as _;
            #made
        })
    };
    let input = options.input_schema.as_ref().map_or_else(
        || {
            let names = arguments.iter().map(Argument::shown);
            let taken = signature::taken(arguments);
            made(quote!(<::indelible_sdk::__private::SchemasOf<#taken>>::input(&[#(#names),*])))
        },
        given,
    );
    let output = options.output_schema.as_ref().map_or_else(
        || made(quote!(<::indelible_sdk::__private::SchemasOf<#promised>>::output())),
        given,
    );
    quote!(input_schema: #input, output_schema: #output,)
}

fn option<T: quote::ToTokens>(value: Option<T>) -> TokenStream {
    match value {
        Some(value) => quote!(::core::option::Option::Some(#value)),
        None => quote!(::core::option::Option::None),
    }
}

/// A closure that decodes the arguments, runs the function and encodes what it returned.
fn run(item: &ItemFn, callee: &str, arguments: &[Argument], fallible: bool) -> TokenStream {
    let name = &item.sig.ident;
    let list: Vec<String> = arguments.iter().map(Argument::shown).collect();
    let shown = format!("{callee}({})", list.join(", "));
    // Names of our own: an argument may be called like the function.
    let locals: Vec<_> =
        (0..arguments.len()).map(|index| format_ident!("argument_{index}")).collect();
    let passed = arguments.iter().zip(&locals).map(|(argument, local)| {
        if argument.by_reference { quote!(&#local) } else { quote!(#local) }
    });
    let types = signature::taken(arguments);
    let pattern = match arguments {
        [] => quote!(()),
        [_] => quote!(#(#locals)*),
        _ => quote!((#(#locals),*)),
    };
    // Errors about a type are shown where it stands.
    let span = item.sig.inputs.span();
    let decode = quote_spanned! {span=>
        ::indelible_sdk::__private::arguments::<#types>(#shown, input)?
    };
    let value = quote!(#name(#(#passed),*));
    let span = item.sig.output.span();
    let encode = if fallible {
        quote_spanned!(span=> ::indelible_sdk::__private::Fallible::outcome(#value))
    } else {
        quote_spanned!(span=> ::indelible_sdk::__private::outcome(#value))
    };
    quote! {
        |input| {
            #[allow(clippy::let_unit_value)]
            let #pattern = #decode;
            #[allow(clippy::unit_arg)]
            {
                #encode
            }
        }
    }
}

#[cfg(test)]
#[path = "function_tests.rs"]
mod tests;
