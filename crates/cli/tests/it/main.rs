//! The real binary, command by command: what it prints, serves, refuses and survives.

mod backup;
mod bench;
mod demo;
mod guest;
mod guides;
mod journal;
mod remote;
mod run;
mod schemathesis;
mod serve;
mod serve_access;
mod serve_config;
mod serve_crash;
mod store;
mod support;
mod unresolved;
mod views;
