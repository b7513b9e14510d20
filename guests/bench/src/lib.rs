//! What `indelible bench` calls.

use indelible_sdk::Payload;
use indelible_sdk::prelude::*;

/// Returns its input.
#[function]
fn echo(input: Payload) -> Payload {
    input
}

/// Calls `echo` so many times, one call after the other.
#[function]
fn steps(n: u32) -> Result<u32, Error> {
    for _ in 0..n {
        echo::call(Payload::raw(*b"step")).wait()?;
    }
    Ok(n)
}

/// Calls `echo` so many times at once, and takes all results.
#[function]
fn fanout(n: u32) -> Result<u32, Error> {
    let mut set: JoinSet<Payload> = (0..n).map(|_| echo::call(Payload::raw(*b"part"))).collect();
    for settled in set.take_all()? {
        settled.outcome?;
    }
    Ok(n)
}

/// Sends so many requests, one after the other: none is sent again.
#[function]
fn requests(n: u32, url: String) -> Result<u32, Error> {
    for number in 0..n {
        let answer = http::post(&url).body(number.to_string()).send().wait()?;
        if answer.status != 200 {
            return Err(format!("request {number} was answered {}", answer.status).into());
        }
    }
    Ok(n)
}

/// Waits for so many signals, and says of each that it came: its number is the line.
#[function]
fn listen(n: u32) -> Result<u32, Error> {
    let numbers = signal::<u64>("go");
    for _ in 0..n {
        let number = numbers.wait()?;
        info!("{number}");
    }
    Ok(n)
}

/// Sleeps so many microseconds; how many it were.
#[function]
fn nap(micros: u64) -> Result<u64, Error> {
    let before = now();
    sleep(Duration::from_micros(micros))?;
    Ok(now().since(before).as_micros() as u64)
}

/// Sleeps so many microseconds, and says when it is awake.
#[function]
fn doze(micros: u64) -> Result<(), Error> {
    sleep(Duration::from_micros(micros))?;
    info!("awake");
    Ok(())
}

indelible_sdk::guest!(doze, echo, fanout, listen, nap, requests, steps);
