//! `Hold`: where arrivals can be made to wait.

/// Where arrivals wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// They have arrived, and have had no effect yet.
    BeforeProcessing,
    /// They have had their effect, if any, and are not answered yet.
    BeforeAnswering,
}

impl Hold {
    /// Its name in paths.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::BeforeProcessing => "before-processing",
            Self::BeforeAnswering => "before-answering",
        }
    }

    /// The one of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::BeforeProcessing, Self::BeforeAnswering].into_iter().find(|hold| hold.name() == name)
    }
}
