//! The macros of `indelible-sdk`.
