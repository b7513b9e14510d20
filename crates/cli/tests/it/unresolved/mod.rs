//! What is unknown stays in sight: fifty orders, a server that is killed three times, and a payment
//! service that cuts lines and answers late. The list of open questions is held against what the
//! payment service saw, and a person settles all of it with the command line.
//!
//! - `shop`: the orders, the payment service and the kills. `seen`: the list against the service.
//!   `settle`: the decisions, and what follows from each.
#![cfg(target_os = "linux")]
#![allow(unreachable_pub, reason = "modules of one test binary")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]
#![allow(clippy::disallowed_methods, reason = "tests start processes and read the clock")]

mod seen;
mod settle;
mod shop;

use shop::Shop;

/// C-78, C-38: whatever is killed and cut, every request that the payment service got and whose
/// answer was not delivered is an open question with its evidence; every other one has a kill or a
/// cut between its beginning and its end; no card is charged twice. A person settles each with the
/// command line, whether its execution waits, has ended or is deleted, and then nothing is open.
#[test]
fn everything_unknown_is_in_the_list_and_can_be_settled() {
    let mut shop = Shop::open();
    for round in 0..shop::KILLS {
        shop.take_orders_and_die(round);
    }
    shop.lose_answers();
    shop.forget_what_completed();
    let user = shop.user();
    let open = seen::check(&shop, &user);
    settle::settle_all(&shop, &user, open);
}
