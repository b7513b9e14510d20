//! That the generated bindings are those of the interface.

mod bindings;
mod testing;
