//! Which seeds a test runs.
#![allow(clippy::disallowed_methods, reason = "the environment says how many seeds there are")]

/// Runs a test with each seed, in a runtime of its own: `INDELIBLE_SEED` is the one seed,
/// `INDELIBLE_SEEDS` how many.
pub(crate) fn for_each_seed<F: Future>(test: impl Fn(u64) -> F) {
    let setting = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seeds = match setting("INDELIBLE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 1..1 + setting("INDELIBLE_SEEDS").unwrap_or(1),
    };
    for seed in seeds {
        println!("INDELIBLE_SEED={seed}");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(test(seed));
    }
}
