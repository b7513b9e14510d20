//! Which messages an endpoint gets: by topic, and by fields of the body.

use std::fmt;
use std::str::FromStr;

use crate::names::{NameError, Topic};

/// A topic, or all topics below one: `order.created`, `order.*`, `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopicPattern {
    /// Every topic.
    All,
    /// This one.
    Exact(Topic),
    /// Those that begin with this one and a `.`.
    Below(Topic),
}

impl TopicPattern {
    /// Whether it has this topic.
    pub fn matches(&self, topic: &Topic) -> bool {
        match self {
            Self::All => true,
            Self::Exact(wanted) => wanted == topic,
            Self::Below(prefix) => {
                let rest = topic.as_str().strip_prefix(prefix.as_str());
                rest.is_some_and(|rest| rest.starts_with('.'))
            }
        }
    }
}

impl FromStr for TopicPattern {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        match text.strip_suffix(".*") {
            _ if text == "*" => Ok(Self::All),
            Some(prefix) => Topic::new(prefix).map(Self::Below),
            None => Topic::new(text).map(Self::Exact),
        }
    }
}

impl fmt::Display for TopicPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.pad("*"),
            Self::Exact(topic) => topic.fmt(f),
            Self::Below(prefix) => write!(f, "{prefix}.*"),
        }
    }
}

/// A field of a JSON body that must have a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldFilter {
    /// Where the field is: a JSON pointer (RFC 6901).
    pub pointer: Box<str>,
    /// The value, as JSON.
    pub value: serde_json::Value,
}

/// Which messages an endpoint gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// Messages of one of these topics; of every topic if there is none.
    pub topics: Vec<TopicPattern>,
    /// All of these fields must have their value.
    pub fields: Vec<FieldFilter>,
}

impl Subscription {
    /// Whether it has a message. A body that is not JSON has no fields.
    pub fn wants(&self, topic: &Topic, body: &[u8]) -> bool {
        let is_topic =
            self.topics.is_empty() || self.topics.iter().any(|pattern| pattern.matches(topic));
        if !is_topic || self.fields.is_empty() {
            return is_topic;
        }
        let Ok(json) = serde_json::from_slice::<serde_json::Value>(body) else { return false };
        self.fields.iter().all(|field| json.pointer(&field.pointer) == Some(&field.value))
    }
}
