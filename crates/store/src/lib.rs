//! How everything durable in Indelible is kept.

pub mod embedded;
