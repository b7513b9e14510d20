//! `remote!`: typed calls of functions of another component.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Attribute, Error, FnArg, Ident, LitStr, Result, ReturnType, Token, Type, Visibility};

use crate::signature;

struct Declarations(Vec<Declaration>);

struct Declaration {
    attributes: Vec<Attribute>,
    visibility: Visibility,
    name: Ident,
    inputs: Punctuated<FnArg, Token![,]>,
    output: ReturnType,
    callee: LitStr,
}

impl Parse for Declarations {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut declarations = Vec::new();
        while !input.is_empty() {
            declarations.push(input.parse()?);
        }
        Ok(Self(declarations))
    }
}

impl Parse for Declaration {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        let visibility = input.parse()?;
        input.parse::<Token![fn]>()?;
        let name = input.parse()?;
        let content;
        syn::parenthesized!(content in input);
        let inputs = Punctuated::parse_terminated(&content)?;
        let output = if input.peek(Token![->]) {
            ReturnType::Type(input.parse()?, Box::new(input.parse::<Type>()?))
        } else {
            ReturnType::Default
        };
        if !input.peek(Token![as]) {
            return Err(input.error("name the remote function, as in `as \"payments/charge\"`"));
        }
        input.parse::<Token![as]>()?;
        let callee: LitStr = input.parse()?;
        input.parse::<Token![;]>()?;
        Ok(Self { attributes, visibility, name, inputs, output, callee })
    }
}

pub(crate) fn expand(tokens: TokenStream) -> Result<TokenStream> {
    let Declarations(declarations) = syn::parse2(tokens)?;
    let mut expanded = TokenStream::new();
    for declaration in declarations {
        let callee = declaration.callee.value();
        if callee.split('/').count() != 2 || callee.split('/').any(str::is_empty) {
            let why = format!("`{callee}` is not of the form `component/function`");
            return Err(Error::new(declaration.callee.span(), why));
        }
        let arguments = signature::arguments(&declaration.inputs)?;
        let (promised, _) = signature::output(&declaration.output)?;
        let attributes = &declaration.attributes;
        let Declaration { visibility, name, .. } = &declaration;
        let attributes = quote!(#(#attributes)*);
        expanded.extend(signature::caller(
            &attributes,
            visibility,
            name,
            &arguments,
            &promised,
            &callee,
            signature::Component::Other,
        ));
    }
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations() {
        let declared = quote! {
            /// Charges.
            pub fn charge(card: &str, cents: u64) -> Result<String, String> as "payments/charge";
            fn ping() as "payments/ping";
        };
        let text = expand(declared).unwrap().to_string();
        assert!(text.contains("pub struct charge { }"), "{text}");
        assert!(text.contains("\"payments/ping\""), "{text}");
    }

    #[test]
    fn mistakes() {
        for (declared, why) in [
            (
                quote!(
                    fn charge(a: u8);
                ),
                "name the remote function",
            ),
            (quote!(fn charge(a: u8) as "charge";), "component/function"),
            (quote!(fn charge(&self) as "p/charge";), "no `self`"),
        ] {
            let error = expand(declared).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
