//! The citations of one source file, and where in it they stand.

use super::id::{self, Id};
use super::tokens::{Place, Tokens};

/// An id in a source.
#[derive(Debug)]
pub(crate) struct Citation {
    pub(crate) id: Id,
    pub(crate) line: usize,
    pub(crate) place: Place,
}

/// Finds the citations of one source file.
pub(crate) fn scan(tokens: &Tokens<'_>) -> Vec<Citation> {
    let prose = tokens.prose();
    let (mut end, mut line, mut is_reference) = (0, 1, false);
    let cite = |(offset, id): (usize, Id)| {
        let between = &prose[end..offset];
        line += between.matches('\n').count();
        is_reference = id::leads_to_reference(between, is_reference);
        end = offset + id.to_string().len();
        let place = if is_reference { Place::Reference } else { tokens.place(offset) };
        Citation { id, line, place }
    };
    id::find(&prose).map(cite).collect()
}
