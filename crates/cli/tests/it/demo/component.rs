//! The component that the demo brings along is the example as it is now.

use serde_json::Value;

use crate::demo::house::House;
use crate::support::process::{Server, request};

const SHOP: &[u8] = include_bytes!("../../../demo/shop.wasm");
const SOURCES: &str = include_str!("../../../demo/shop.sources.sha256");

/// It was built from the sources that are here.
#[test]
fn it_is_not_stale() {
    assert_eq!(
        SOURCES.trim(),
        indelible_guests::demo_sources().unwrap(),
        "crates/cli/demo/shop.wasm is stale: run `cargo xtask demo-component`, and commit it"
    );
}

/// It says nothing of the machine that it was built on.
#[test]
fn it_names_no_folder_of_a_machine() {
    let has = |text: &str| SHOP.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(has("indelible/crates/sdk"), "places in the code are named from the project's root");
    for folder in ["/home/", "/root/", "/.cargo/", env!("CARGO_MANIFEST_DIR")] {
        assert!(!has(folder), "{folder}: run `cargo xtask demo-component`");
    }
}

/// It has the functions of the one that is built now, as a server sees them.
#[test]
fn it_has_the_functions_of_the_example() {
    let house = House::new();
    let server = Server::start(&house.elsewhere().join("data"), &[]);
    server.deploy("built", "shop");
    let kind = [("content-type", "application/wasm")];
    let answer = request(&server.address, "PUT", "/v1/components/kept", &kind, SHOP).unwrap();
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    let functions = |name: &str| -> Vec<Value> {
        let component = server.get(&format!("/v1/components/{name}")).json();
        let mut functions = component["functions"].as_array().unwrap().clone();
        // Under which name it was deployed is the only difference.
        for function in &mut functions {
            function.as_object_mut().unwrap().remove("component");
        }
        functions
    };
    let built = functions("built");
    assert_eq!(functions("kept"), built, "run `cargo xtask demo-component`");
    let names: Vec<_> = built.iter().map(|function| function["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["order", "reserve", "ship", "was_it_charged"]);
}
