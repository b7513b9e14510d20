//! Whether the rows of delivery fit together: each row alone, and each index with what it is of.

use bytes::Bytes;
use indelible_delivery::delivery::State;
use indelible_store::{Read, ReadError, Table};

use super::{
    DEAD, DELIVERY, DeliveryKey, ENDPOINT, LANE, NUMBER, OFFICE, QUEUED, SENDING, StoredDelivery,
    deliveries, messages, office, read_key,
};
use crate::codec::damaged;
use crate::{DELIVERIES, MESSAGES};

/// The tables of delivery.
pub(crate) const TABLES: [Table; 2] = [MESSAGES, DELIVERIES];

/// Checks a row of one of them.
pub(crate) fn check(
    read: &impl Read,
    table: Table,
    row: &Bytes,
    value: &Bytes,
) -> Result<(), ReadError> {
    let broken = |what: &str| Err(damaged(&table, row, what));
    if table == MESSAGES {
        let stored = messages::decode(row, value)?;
        let namespace = &stored.message.namespace;
        let led_to = messages::message_of_number(read, namespace, stored.number)?.value;
        if led_to != Some(stored.message.id()) {
            return broken("its number does not lead to it");
        }
        for endpoint in stored.endpoints {
            let key = DeliveryKey { endpoint, number: stored.number };
            if deliveries::delivery(read, namespace, key)?.value.is_none() {
                return broken("it has no delivery for one of its endpoints");
            }
        }
        return Ok(());
    }
    let (namespace, kind, _) = read_key(&table, row)?;
    let stored = |key| deliveries::delivery(read, &namespace, key).map(|seen| seen.value);
    let in_state = |key, is: fn(&State) -> bool| match stored(key)? {
        Some(StoredDelivery { delivery, .. }) if is(&delivery.state) => Ok(()),
        _ => broken("its delivery is in another state"),
    };
    match kind {
        OFFICE => office::decode_office(row, value).map(drop),
        ENDPOINT => office::decode_endpoint(row, value).map(drop),
        NUMBER => messages::check_number(row, value),
        DELIVERY => {
            let StoredDelivery { message, .. } = deliveries::decode(row, value)?;
            let number = deliveries::number_first(row)?.number;
            match messages::message(read, message)?.value {
                Some(stored) if stored.number == number => Ok(()),
                _ => broken("its message is missing"),
            }
        }
        QUEUED => in_state(deliveries::endpoint_first(row)?, |state| {
            matches!(state, State::Queued | State::Waiting { .. })
        }),
        SENDING => in_state(deliveries::endpoint_first(row)?, |state| {
            matches!(state, State::Sending { .. })
        }),
        DEAD => {
            in_state(deliveries::number_first(row)?, |state| matches!(state, State::Dead { .. }))
        }
        LANE => {
            let (lane, key) = deliveries::read_lane(row)?;
            match stored(key)? {
                Some(stored) if stored.lane.as_ref() == Some(&lane) => Ok(()),
                _ => broken("its delivery is in another lane"),
            }
        }
        _ => broken("it is of unknown kind"),
    }
}
