//! What is measured, as a table for people or as JSON Lines. The keys are described in
//! `docs/formats/cli-json.md`.

use std::io::{self, Write};

use serde::Serialize;

use super::drive::Stretch;
use super::meters;
use super::open::Opened;
use super::sustained::Sustained;
use crate::failure::{Failure, quiet};

/// The version of what `--json` prints.
const JSON_VERSION: u32 = 1;

/// One measurement. What does not apply is null.
#[derive(Debug, Clone, Serialize)]
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
    #[serde(flatten)]
    pub(super) more: More,
}

/// What only some workloads have.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub(super) enum More {
    Nothing {},
    Raw { before_per_s: f64, after_per_s: f64 },
    Reads { entries: u64, entries_per_s: f64, cache_mib: u64 },
    Sustained(Sustained),
    Open(Opened),
}

impl Line {
    pub(super) fn new(workload: &'static str) -> Self {
        Self {
            v: JSON_VERSION,
            workload,
            producers: None,
            seconds: None,
            count: None,
            per_s: None,
            p50_us: None,
            p99_us: None,
            p999_us: None,
            fsyncs: None,
            bytes_written: None,
            bytes_given: None,
            cpu_s: None,
            rss_mb: meters::rss_mb().map(|mb| round(mb, 1)),
            raw_per_s: None,
            ratio_to_raw: None,
            more: More::Nothing {},
        }
    }

    /// What a stretch of time brought.
    pub(super) fn of(workload: &'static str, stretch: &Stretch) -> Self {
        let latency = |per_mille| Some(micros(stretch.latencies.per_mille(per_mille)));
        Self {
            seconds: Some(round(stretch.seconds, 3)),
            count: Some(stretch.latencies.count()),
            per_s: Some(round(stretch.per_s(), 1)),
            p50_us: latency(500),
            p99_us: latency(990),
            p999_us: latency(999),
            bytes_written: stretch.usage.written,
            cpu_s: Some(round(stretch.usage.cpu.as_secs_f64(), 3)),
            ..Self::new(workload)
        }
    }

    /// What the disk itself did at about the same time.
    pub(super) fn beside(self, raw_per_s: f64) -> Self {
        let per_s = self.per_s.filter(|_| raw_per_s > 0.0);
        let ratio = per_s.map(|per_s| round(per_s / raw_per_s, 3));
        Self { raw_per_s: Some(round(raw_per_s, 1)), ratio_to_raw: ratio, ..self }
    }
}

/// Nanoseconds as microseconds.
pub(super) fn micros(nanos: u64) -> f64 {
    round(nanos as f64 / 1_000.0, 2)
}

pub(super) fn round(number: f64, places: i32) -> f64 {
    let unit = 10_f64.powi(places);
    (number * unit).round() / unit
}

/// Where measurements go, each as soon as it is made.
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
        let written = if self.json { self.write_json(line) } else { self.write_row(line) };
        quiet(written).map_err(|error| Failure::output(&error))
    }

    /// A measurement with keys of its own, and the same for people.
    pub(super) fn object(&mut self, object: &impl Serialize, text: &str) -> Result<(), Failure> {
        if !self.json {
            return self.text(text);
        }
        let line = serde_json::to_string(object).map_err(io::Error::from);
        let written = line.and_then(|line| writeln!(self.out, "{line}"));
        quiet(written.and_then(|()| self.out.flush())).map_err(|error| Failure::output(&error))
    }

    /// More for people, beneath a line.
    pub(super) fn text(&mut self, text: &str) -> Result<(), Failure> {
        let written = if self.json { Ok(()) } else { writeln!(self.out, "{text}") };
        quiet(written.and_then(|()| self.out.flush())).map_err(|error| Failure::output(&error))
    }

    /// What people see while it goes on. As JSON it is part of a later line.
    pub(super) fn progress(&mut self, text: &str) -> Result<(), Failure> {
        if self.json {
            super::note(text);
        }
        self.text(text)
    }

    fn write_json(&mut self, line: &Line) -> io::Result<()> {
        serde_json::to_writer(&mut *self.out, line)?;
        writeln!(self.out)?;
        self.out.flush()
    }

    fn write_row(&mut self, line: &Line) -> io::Result<()> {
        if !self.has_header {
            self.has_header = true;
            writeln!(
                self.out,
                "{:9} {:>5} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7} {:>5} {:>5}",
                "workload",
                "prod.",
                "per s",
                "p50",
                "p99",
                "p99.9",
                "syncs",
                "cpu s",
                "MiB",
                "ratio",
            )?;
        }
        let text = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        writeln!(
            self.out,
            "{:9} {:>5} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7} {:>5} {:>5}",
            line.workload,
            text(line.producers.map(|producers| producers.to_string())),
            text(line.per_s.map(|per_s| format!("{per_s:.0}"))),
            text(line.p50_us.map(latency)),
            text(line.p99_us.map(latency)),
            text(line.p999_us.map(latency)),
            text(line.fsyncs.map(|fsyncs| fsyncs.to_string())),
            text(line.cpu_s.map(|cpu| format!("{cpu:.2}"))),
            text(line.rss_mb.map(|mb| format!("{mb:.0}"))),
            text(line.ratio_to_raw.map(|ratio| format!("{ratio:.2}"))),
        )?;
        self.out.flush()
    }
}

/// Bytes as whole mebibytes.
pub(super) fn mib(bytes: u64) -> u64 {
    bytes >> 20
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

    /// Columns line up within 80, with everything in them or nothing.
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

    /// A disk that did nothing makes no ratio that is no number.
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
