//! What schemas accept and refuse, and that neither a schema nor an input takes more than it may.

mod compare;
mod hostile;
mod types;
mod words;
