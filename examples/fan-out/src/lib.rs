//! A hundred pieces of work at once, and their results as they arrive.

use indelible_sdk::prelude::*;

/// What came of all the work.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
struct Summary {
    done: u64,
    longest: u64,
    failed: Vec<u64>,
}

/// Works on the numbers from 1 to 100, or to as many as it is given, all at once.
#[function]
fn summarize(count: Option<u64>) -> Result<Summary, Error> {
    let mut work: JoinSet<u64> = (1..=count.unwrap_or(100)).map(steps_to_one::call).collect();
    let mut summary = Summary::default();
    while let Some(settled) = work.next_settled()? {
        match settled.outcome {
            Ok(steps) => {
                summary.done += 1;
                summary.longest = summary.longest.max(steps);
            }
            Err(_) => summary.failed.push(settled.index as u64 + 1),
        }
    }
    summary.failed.sort_unstable();
    Ok(summary)
}

/// How many steps the number takes to reach 1, by halving it or taking three times and one more.
#[function(idem)]
fn steps_to_one(number: u64) -> Result<u64, Error> {
    if number == 27 {
        return Err("27 takes too long".into());
    }
    let (mut number, mut steps) = (number, 0);
    while number > 1 {
        number = if number % 2 == 0 { number / 2 } else { 3 * number + 1 };
        steps += 1;
    }
    Ok(steps)
}

indelible_sdk::guest!(summarize, steps_to_one);
