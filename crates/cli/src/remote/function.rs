//! Which function is meant: `component/function`, or `function` if only one component has it.

use std::str::FromStr;

use indelible_client::api::component::Function;
use indelible_client::api::{Code, Problem};

use serde_json::value::RawValue;

use super::connection::Remote;
use super::errors::Explained as _;
use crate::failure::Failure;
use crate::nearest::mistakes;

/// How many similar names are suggested at most.
const SUGGESTED_MAX: usize = 3;

/// A function as users name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FunctionRef {
    component: Option<String>,
    function: String,
}

/// A function of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ComponentFunction {
    pub(crate) component: String,
    pub(crate) function: String,
}

impl FromStr for FunctionRef {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (component, function) = match text.split_once('/') {
            Some((component, function)) => (Some(component), function),
            None => (None, text),
        };
        if component == Some("") || function.is_empty() || function.contains('/') {
            return Err("give a function as order-saga/order, or order");
        }
        Ok(Self { component: component.map(str::to_owned), function: function.to_owned() })
    }
}

impl Remote {
    /// The function that is meant. If the component is given, the server is not asked.
    pub(crate) fn function(&self, named: &FunctionRef) -> Result<ComponentFunction, Failure> {
        let name = &named.function;
        if let Some(component) = &named.component {
            return Ok(ComponentFunction { component: component.clone(), function: name.clone() });
        }
        let all = self.run(self.client.functions())?.functions;
        let mut same: Vec<_> = all.iter().filter(|function| function.name == *name).collect();
        match (same.pop(), same.is_empty()) {
            (Some(one), true) => Ok(ComponentFunction {
                component: one.component.clone(),
                function: one.name.clone(),
            }),
            (Some(last), false) => {
                same.push(last);
                Err(Failure::new(format!("several components have a function {name:?}"))
                    .list(same.into_iter().map(whole).collect())
                    .hint("give the component too, as in the list"))
            }
            (None, _) => {
                let failure = Failure::new(format!("no component has a function {name:?}"));
                Err(failure.hint(suggestion(named, &all)))
            }
        }
    }

    /// The error for an unknown function, with similar names.
    pub(crate) fn no_such_function(
        &self,
        problem: Box<Problem>,
        found: &ComponentFunction,
    ) -> Failure {
        let ComponentFunction { component, function } = found.clone();
        let named = FunctionRef { component: Some(component), function };
        let refused = indelible_client::Error::Refused(problem).explain(&self.at);
        match self.wait(self.client.functions()) {
            Ok(all) => refused.hint(suggestion(&named, &all.functions)),
            // A caller that may call need not be allowed to list functions.
            Err(_) => refused,
        }
    }
}

/// Whether this code means that there is no such function.
pub(super) fn no_such(code: Code) -> bool {
    matches!(code, Code::NoSuchComponent | Code::NoSuchFunction)
}

/// Whether a function refused an input that is no array, where it may want one.
pub(super) fn is_misfit(problem: &Problem, input: &RawValue) -> bool {
    problem.code == Code::InvalidInput && !input.get().starts_with('[')
}

/// The function's name as calls have it.
fn whole(function: &Function) -> String {
    format!("{}/{}", function.component, function.name)
}

fn suggestion(named: &FunctionRef, all: &[Function]) -> String {
    if all.is_empty() {
        return "nothing is deployed yet: deploy a component with `indelible deploy PATH`"
            .to_owned();
    }
    let near = near(named, all);
    match near.is_empty() {
        true => "`indelible functions` lists what can be called".to_owned(),
        false => format!(
            "did you mean {}? `indelible functions` lists what can be called",
            near.join(" or ")
        ),
    }
}

/// The functions whose names differ in few letters, the nearest first.
fn near(named: &FunctionRef, all: &[Function]) -> Vec<String> {
    let mut near: Vec<_> = all
        .iter()
        .filter_map(|function| {
            let other =
                named.component.as_ref().map_or(0, |name| mistakes(name, &function.component));
            let letters = mistakes(&named.function, &function.name);
            let is_near = |letters: usize, name: &str| letters <= 1 + name.chars().count() / 4;
            // The same function in another component is near, whatever that component is called.
            let is_near = is_near(letters, &named.function)
                && (letters == 0
                    || named.component.as_ref().is_none_or(|name| is_near(other, name)));
            is_near.then(|| (letters, other, whole(function)))
        })
        .collect();
    near.sort();
    near.into_iter().map(|(_, _, name)| name).take(SUGGESTED_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn functions(names: &[&str]) -> Vec<Function> {
        let function = |name: &&str| {
            let (component, name) = name.split_once('/').unwrap();
            let (component, name) = (component.to_owned(), name.to_owned());
            let (input_schema, output_schema) = (None, None);
            let (description, persist, idem) = (String::new(), true, false);
            Function { component, name, description, persist, idem, input_schema, output_schema }
        };
        names.iter().map(function).collect()
    }

    #[test]
    fn how_people_name_functions() {
        for good in ["order", "shop/order", "wait_signals"] {
            assert!(good.parse::<FunctionRef>().is_ok(), "{good}");
        }
        for bad in ["", "/", "shop/", "/order", "a/b/c"] {
            assert!(bad.parse::<FunctionRef>().is_err(), "{bad}");
        }
    }

    /// Similar names are suggested, the nearest first; others are not.
    #[test]
    fn what_was_meant() {
        let all = functions(&["order-saga/order", "order-saga/refund", "shop/order", "shop/list"]);
        let near = |name: &str| near(&name.parse().unwrap(), &all);
        assert_eq!(near("ordr"), ["order-saga/order", "shop/order"]);
        assert_eq!(near("order-saga/ordr"), ["order-saga/order"]);
        assert_eq!(near("order_saga/refnd"), ["order-saga/refund"]);
        assert_eq!(near("shp/order"), ["shop/order", "order-saga/order"]);
        assert_eq!(near("zebra"), [""; 0]);
        let hint = |all: &[Function]| suggestion(&"ordr".parse().unwrap(), all);
        assert!(hint(&all).starts_with("did you mean order-saga/order or shop/order?"));
        assert!(hint(&[]).contains("indelible deploy"));
    }
}
