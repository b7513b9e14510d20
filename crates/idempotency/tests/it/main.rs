//! Keys, stores on both databases, the middleware, and what becomes of them under chaos.

mod chaos;
mod layer;
mod orders;
mod pure;
mod roundtrips;
mod stores;
mod vectors;
