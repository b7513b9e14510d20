//! What the built guests are, and what they do with their memory.

mod memory;
mod shape;
