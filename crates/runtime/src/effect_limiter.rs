//! Permits for HTTP requests in flight: a bound for all, a share of it for each component, and a
//! smaller share for each origin. A peer that hangs fills its origin's share and nothing else, so
//! requests to other peers find permits as if it were not there; a component with many such peers
//! fills its own share.
//!
//! Effects that found no permit wait in a lane for each component and origin. The lanes take turns:
//! a lane with free permits is never behind one without.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// How many requests may be in flight.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EffectLimits {
    pub(crate) all: usize,
    pub(crate) component: usize,
    pub(crate) origin: usize,
}

/// The shares that a request counts towards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lane {
    pub(crate) component: Arc<str>,
    pub(crate) origin: Arc<str>,
}

/// How many requests are in flight, and which effects wait.
#[derive(Debug)]
pub(crate) struct EffectLimiter<T> {
    shares: EffectLimits,
    taken: usize,
    /// How many are in flight to each origin.
    origins: HashMap<Arc<str>, usize>,
    components: HashMap<Arc<str>, Component<T>>,
    /// The components with waiting effects, in the order of their turns.
    turns: VecDeque<Arc<str>>,
}

#[derive(Debug)]
struct Component<T> {
    taken: usize,
    waiting: HashMap<Arc<str>, VecDeque<T>>,
    /// The origins with waiting effects, in the order of their turns.
    turns: VecDeque<Arc<str>>,
}

impl<T> Default for Component<T> {
    fn default() -> Self {
        Self { taken: 0, waiting: HashMap::new(), turns: VecDeque::new() }
    }
}

impl<T> EffectLimiter<T> {
    pub(crate) fn new(shares: EffectLimits) -> Self {
        Self {
            shares,
            taken: 0,
            origins: HashMap::new(),
            components: HashMap::new(),
            turns: VecDeque::new(),
        }
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken
    }

    /// The lane of a component and the label of a request: its method and its target. Two spellings
    /// of one origin have a lane each, and share the permits of their component.
    pub(crate) fn lane(&self, component: &str, label: &str) -> Lane {
        let place = label.split_once(' ').map_or(label, |(_, place)| place);
        let (scheme, rest) = place.split_once("://").unwrap_or(("", place));
        let host = rest.split('/').next().unwrap_or_default();
        let origin = &place[..(place.len() - rest.len() + host.len()).max(scheme.len())];
        let known = |known: Option<&Arc<str>>, name: &str| match known {
            Some(known) => Arc::clone(known),
            None => name.into(),
        };
        Lane {
            component: known(
                self.components.get_key_value(component).map(|(key, _)| key),
                component,
            ),
            origin: known(self.origins.get_key_value(origin).map(|(key, _)| key), origin),
        }
    }

    /// Takes a permit, if the lane has a free one.
    pub(crate) fn take(&mut self, lane: &Lane) -> bool {
        let in_flight = self.origins.get(&lane.origin).copied().unwrap_or(0);
        let by_component = self.components.get(&lane.component).map_or(0, |of| of.taken);
        let has_room = self.taken < self.shares.all
            && by_component < self.shares.component
            && in_flight < self.shares.origin;
        if has_room {
            self.taken += 1;
            *self.origins.entry(Arc::clone(&lane.origin)).or_default() += 1;
            self.components.entry(Arc::clone(&lane.component)).or_default().taken += 1;
        }
        has_room
    }

    pub(crate) fn give_back(&mut self, lane: &Lane) {
        self.taken -= 1;
        if let Some(in_flight) = self.origins.get_mut(&lane.origin) {
            *in_flight -= 1;
            if *in_flight == 0 {
                self.origins.remove(&lane.origin);
            }
        }
        if let Some(component) = self.components.get_mut(&lane.component) {
            component.taken -= 1;
            if component.taken == 0 && component.turns.is_empty() {
                self.components.remove(&lane.component);
            }
        }
    }

    /// Queues an effect that found no permit.
    pub(crate) fn wait(&mut self, lane: &Lane, one: T) {
        let component = self.components.entry(Arc::clone(&lane.component)).or_default();
        if component.turns.is_empty() {
            self.turns.push_back(Arc::clone(&lane.component));
        }
        let waiting = component.waiting.entry(Arc::clone(&lane.origin)).or_default();
        if waiting.is_empty() {
            component.turns.push_back(Arc::clone(&lane.origin));
        }
        waiting.push_back(one);
    }

    /// Forgets all waiting effects.
    pub(crate) fn forget_waiting(&mut self) {
        for name in self.turns.drain(..) {
            if let Some(component) = self.components.get_mut(&name) {
                component.waiting.clear();
                component.turns.clear();
            }
        }
        self.components.retain(|_, component| component.taken > 0);
    }

    /// Takes from the queues as many waiting effects as there are free permits for.
    ///
    /// A component or an origin without a free permit costs one look. There are few of them at a
    /// time: each has its whole share in flight.
    pub(crate) fn next(&mut self) -> Vec<T> {
        let mut chosen = Vec::new();
        // Each component in turn gives one, until none of them can.
        let mut left = self.turns.len();
        while left > 0 && self.taken < self.shares.all {
            let Some(component) = self.turns.pop_front() else { break };
            let one = self.next_of(&component);
            if self.components.get(&component).is_some_and(|of| !of.turns.is_empty()) {
                self.turns.push_back(Arc::clone(&component));
            }
            match one {
                Some((origin, one)) => {
                    let lane = Lane { component, origin };
                    // Taken only while choosing: each effect takes its permit itself when it
                    // begins.
                    self.take(&lane);
                    chosen.push((lane, one));
                    left = self.turns.len();
                }
                None => left -= 1,
            }
        }
        let free = |(lane, one)| {
            self.give_back(&lane);
            one
        };
        chosen.into_iter().map(free).collect()
    }

    /// The next effect of a component whose origin has a free permit.
    fn next_of(&mut self, component: &str) -> Option<(Arc<str>, T)> {
        let component = self.components.get_mut(component)?;
        if component.taken >= self.shares.component {
            return None;
        }
        for _ in 0..component.turns.len() {
            let origin = component.turns.pop_front()?;
            let in_flight = self.origins.get(&origin).copied().unwrap_or(0);
            if in_flight >= self.shares.origin {
                component.turns.push_back(origin);
                continue;
            }
            let waiting = component.waiting.get_mut(&origin)?;
            let one = waiting.pop_front()?;
            if waiting.is_empty() {
                component.waiting.remove(&origin);
            } else {
                component.turns.push_back(Arc::clone(&origin));
            }
            return Some((origin, one));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(all: usize, component: usize, origin: usize) -> EffectLimiter<u32> {
        EffectLimiter::new(EffectLimits { all, component, origin })
    }

    #[test]
    fn a_lane_is_a_component_and_an_origin() {
        let room = room(1, 1, 1);
        for (label, origin) in [
            ("POST https://a.test/charges/1", "https://a.test"),
            ("GET http://a.test:81", "http://a.test:81"),
            ("GET http://[::1]:8/x y", "http://[::1]:8"),
            ("GET a.test/x", "a.test"),
            ("HTTP", "HTTP"),
            ("", ""),
            ("GET ://", "://"),
        ] {
            let lane = room.lane("shop", label);
            assert_eq!((&*lane.component, &*lane.origin), ("shop", origin), "{label}");
        }
    }

    /// An origin that hangs leaves permits for others of its component, and a component whose
    /// origins all hang leaves permits for other components.
    #[test]
    fn who_hangs_fills_its_own_share() {
        let mut room = room(8, 4, 2);
        let lane = |room: &EffectLimiter<u32>, component, host: &str| {
            room.lane(component, &format!("POST http://{host}/x"))
        };
        let hangs = lane(&room, "shop", "hangs");
        let taken = (0..10)
            .filter(|n| {
                room.take(&hangs) || {
                    room.wait(&hangs, *n);
                    false
                }
            })
            .count();
        assert_eq!(taken, 2);
        assert!(room.next().is_empty(), "none of those that wait finds room");
        let other = lane(&room, "shop", "other");
        assert!(room.take(&other));
        let third = lane(&room, "shop", "third");
        assert!(room.take(&third));
        assert!(!room.take(&lane(&room, "shop", "fourth")), "the component's share is full");
        assert!(room.take(&lane(&room, "mail", "fourth")));
        assert!(!room.take(&lane(&room, "mail", "hangs")), "the origin's share is one for all");
        assert_eq!(room.taken(), 5);
        room.give_back(&hangs);
        assert_eq!(room.next(), [2], "the first that waited");
    }

    #[test]
    fn lanes_take_turns() {
        let mut room = room(3, 3, 3);
        let lanes = ["a", "b", "c"].map(|host| room.lane("shop", &format!("GET http://{host}/")));
        let mail = room.lane("mail", "GET http://a/");
        for _ in 0..3 {
            assert!(room.take(&lanes[0]));
        }
        for n in 0..4 {
            room.wait(&lanes[0], n);
        }
        room.wait(&lanes[1], 10);
        room.wait(&lanes[2], 20);
        room.wait(&mail, 30);
        room.wait(&mail, 31);
        assert!(room.next().is_empty());
        for _ in 0..3 {
            room.give_back(&lanes[0]);
        }
        assert_eq!(room.next(), [0, 30, 10]);
        assert_eq!(room.next(), [31, 20, 1]);
        assert_eq!(room.next(), [2, 3]);
        assert!(room.next().is_empty());
        assert!(room.components.is_empty() && room.origins.is_empty() && room.turns.is_empty());
    }

    #[test]
    fn what_is_forgotten_waits_no_longer() {
        let mut room = room(1, 1, 1);
        let lane = room.lane("shop", "GET http://a/");
        assert!(room.take(&lane));
        room.wait(&lane, 1);
        room.wait(&room.lane("mail", "GET http://a/"), 2);
        room.forget_waiting();
        room.give_back(&lane);
        assert!(room.next().is_empty());
        assert!(room.components.is_empty() && room.turns.is_empty());
    }
}
