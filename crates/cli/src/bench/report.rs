//! Measurements as a table for people, or as JSON Lines. `docs/formats/cli-json.md` describes the
//! keys.

use std::io::{self, Write};
use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use super::drive::Stretch;
use super::meters;
use crate::failure::{Failure, quiet};
use crate::print::VERSION;

/// Keys and their values, in the order in which they are printed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Figures(Vec<(&'static str, Box<RawValue>)>);

impl Figures {
    pub(super) fn with(mut self, key: &'static str, value: impl Serialize) -> Self {
        let value = to_raw_value(&value).expect("figures are numbers, texts and lists");
        self.0.push((key, value));
        self
    }

    /// These figures followed by others.
    pub(super) fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }
}

impl Serialize for Figures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

/// `figures!(n, per_s)` has the keys `n` and `per_s`, with the values of these variables.
macro_rules! figures {
    ($($key:ident),* $(,)?) => {
        $crate::bench::report::Figures::default()$(.with(stringify!($key), $key))*
    };
}
pub(super) use figures;

/// A measurement with keys of its own.
#[derive(Serialize)]
pub(crate) struct Measurement {
    v: u32,
    workload: &'static str,
    #[serde(flatten)]
    figures: Figures,
    /// The measurement for people.
    #[serde(skip)]
    text: String,
}

impl Measurement {
    pub(super) fn new(workload: &'static str, figures: Figures, text: String) -> Self {
        Self { v: VERSION, workload, figures, text }
    }
}

/// A measurement of the store. A figure that does not apply is null.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Line {
    pub(super) v: u32,
    pub(super) workload: &'static str,
    pub(super) producers: Option<u32>,
    pub(super) seconds: Option<f64>,
    pub(super) count: Option<u64>,
    pub(super) per_s: Option<f64>,
    pub(super) p50_us: Option<f64>,
    pub(super) p99_us: Option<f64>,
    pub(super) p999_us: Option<f64>,
    pub(super) fsyncs: Option<u64>,
    pub(super) bytes_written: Option<u64>,
    pub(super) bytes_given: Option<u64>,
    pub(super) cpu_s: Option<f64>,
    pub(super) rss_mb: Option<f64>,
    pub(super) raw_per_s: Option<f64>,
    pub(super) ratio_to_raw: Option<f64>,
    /// Figures of some workloads only.
    #[serde(flatten)]
    pub(super) more: Figures,
}

impl Line {
    pub(super) fn new(workload: &'static str) -> Self {
        Self { v: VERSION, workload, rss_mb: meters::rss_mb(), ..Self::default() }
    }

    /// The line for a stretch of time.
    pub(super) fn of(workload: &'static str, stretch: &Stretch) -> Self {
        let [p50_us, p99_us, p999_us] = stretch.latencies.micros([500, 990, 999]).map(Some);
        Self {
            seconds: Some(round(stretch.seconds, 3)),
            count: Some(stretch.latencies.count()),
            per_s: Some(round(stretch.per_s(), 1)),
            p50_us,
            p99_us,
            p999_us,
            bytes_written: stretch.usage.written,
            cpu_s: Some(stretch.cpu_s()),
            ..Self::new(workload)
        }
    }

    /// Adds the rate of the disk itself at about the same time.
    pub(super) fn beside(self, raw_per_s: f64) -> Self {
        let per_s = self.per_s.filter(|_| raw_per_s > 0.0);
        let ratio = per_s.map(|per_s| round(per_s / raw_per_s, 3));
        Self { raw_per_s: Some(round(raw_per_s, 1)), ratio_to_raw: ratio, ..self }
    }

    /// A row of the table for people.
    fn row(&self) -> String {
        let text = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        format!(
            "{:9} {:>5} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7} {:>5} {:>5}",
            self.workload,
            text(self.producers.map(|producers| producers.to_string())),
            text(self.per_s.map(|per_s| format!("{per_s:.0}"))),
            text(self.p50_us.map(latency)),
            text(self.p99_us.map(latency)),
            text(self.p999_us.map(latency)),
            text(self.fsyncs.map(|fsyncs| fsyncs.to_string())),
            text(self.cpu_s.map(|cpu| format!("{cpu:.2}"))),
            text(self.rss_mb.map(|mb| format!("{mb:.0}"))),
            text(self.ratio_to_raw.map(|ratio| format!("{ratio:.2}"))),
        )
    }
}

/// Seconds, rounded for the report.
pub(super) fn seconds(time: Duration) -> f64 {
    round(time.as_secs_f64(), 3)
}

/// Nanoseconds as microseconds.
pub(super) fn micros(nanos: u64) -> f64 {
    round(nanos as f64 / 1_000.0, 2)
}

pub(super) fn round(number: f64, places: i32) -> f64 {
    let unit = 10_f64.powi(places);
    (number * unit).round() / unit
}

/// The header above the rows of [`Line::row`].
const HEADER: &str =
    "workload  prod.    per s      p50      p99    p99.9    syncs   cpu s   MiB ratio";

/// Where measurements are written, each as soon as it is made.
pub(super) struct Report<'a, W> {
    out: &'a mut W,
    json: bool,
    has_header: bool,
}

impl<'a, W: Write> Report<'a, W> {
    pub(super) fn new(out: &'a mut W, json: bool) -> Self {
        Self { out, json, has_header: false }
    }

    pub(super) fn line(&mut self, line: &Line) -> Result<(), Failure> {
        if self.json {
            return self.json(line);
        }
        if !std::mem::replace(&mut self.has_header, true) {
            self.write(HEADER)?;
        }
        self.write(&line.row())
    }

    /// Writes a measurement with keys of its own.
    pub(super) fn measurement(&mut self, measured: &Measurement) -> Result<(), Failure> {
        if self.json { self.json(measured) } else { self.write(&measured.text) }
    }

    /// Writes more text for people, below a line.
    pub(super) fn text(&mut self, text: &str) -> Result<(), Failure> {
        if self.json { Ok(()) } else { self.write(text) }
    }

    /// Writes progress: to stderr with JSON, where it is part of a later line.
    pub(super) fn progress(&mut self, text: &str) -> Result<(), Failure> {
        if self.json {
            super::note(text);
        }
        self.text(text)
    }

    fn json(&mut self, object: &impl Serialize) -> Result<(), Failure> {
        let line = serde_json::to_string(object).map_err(io::Error::from);
        self.write(&line.map_err(|error| Failure::output(&error))?)
    }

    fn write(&mut self, line: &str) -> Result<(), Failure> {
        let written = writeln!(self.out, "{line}").and_then(|()| self.out.flush());
        quiet(written).map_err(|error| Failure::output(&error))
    }
}

/// Bytes as whole mebibytes.
pub(super) fn mib(bytes: u64) -> u64 {
    bytes >> 20
}

/// The same for a figure that the system may not give.
pub(super) fn memory(bytes: Option<u64>) -> String {
    bytes.map_or("?".to_owned(), |bytes| mib(bytes).to_string())
}

/// The middle value; of two middle values, the mean.
pub(super) fn median(rates: &[f64]) -> f64 {
    let mut sorted = rates.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        count if count % 2 == 1 => sorted[middle],
        _ => round(f64::midpoint(sorted[middle - 1], sorted[middle]), 1),
    }
}

/// A latency in a column of eight: `0.85us`, `412us`, `12.3ms`, `1.20s`.
pub(super) fn latency(micros: f64) -> String {
    match micros {
        ..10.0 => format!("{micros:.2}us"),
        ..1_000.0 => format!("{micros:.0}us"),
        ..10_000.0 => format!("{:.2}ms", micros / 1e3),
        ..1_000_000.0 => format!("{:.1}ms", micros / 1e3),
        _ => format!("{:.2}s", micros / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(json: bool, line: &Line) -> String {
        let mut out = Vec::new();
        Report::new(&mut out, json).line(line).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// Columns line up within 80, whether they have values or not.
    #[test]
    fn a_table_fits_eighty_columns() {
        let mut stretch = Stretch { seconds: 600.0, ..Stretch::default() };
        (0..999).for_each(|_| stretch.latencies.add(123_456_789));
        let full = Line {
            producers: Some(4_096),
            per_s: Some(12_345_678.9),
            fsyncs: Some(12_345_678),
            cpu_s: Some(1_200.0),
            rss_mb: Some(12_345.0),
            ..Line::of("sustained", &stretch).beside(99_999.9)
        };
        for line in [full, Line::new("open")] {
            let text = written(false, &line);
            let widths: Vec<usize> = text.lines().map(str::len).collect();
            assert_eq!(widths, [80, 80], "{text}");
        }
    }

    /// A disk that did nothing gives no ratio.
    #[test]
    fn no_ratio_to_nothing() {
        let line = Line { per_s: Some(5.0), ..Line::new("step") }.beside(0.0);
        assert_eq!((line.raw_per_s, line.ratio_to_raw), (Some(0.0), None));
        assert_eq!(written(true, &line).lines().count(), 1);
    }

    #[test]
    fn latencies_are_short() {
        let cases = [
            (0.0, "0.00us"),
            (9.99, "9.99us"),
            (412.4, "412us"),
            (1_234.0, "1.23ms"),
            (999_000.0, "999.0ms"),
            (61_000_000.0, "61.00s"),
        ];
        for (micros, text) in cases {
            assert_eq!(latency(micros), text);
        }
    }
}
