//! `Bench`: runs the workloads one after the other, each in its own store or over the loaded one.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use indelible_store::Store;
use indelible_store::embedded::{self, Options};
use tokio::runtime::Runtime;

use super::drive::{Stretch, Windows};
use super::load::{JOURNAL_ROWS, LoadedStore};
use super::place::BenchFolder;
use super::report::{Line, Report, figures, round};
use super::steps::ROW_ENTRIES;
use super::sustained::{self, Setting};
use super::{SEED_STEPS, StoreArguments, Workload, close, open, raw, reads, step};
use crate::failure::Failure;

pub(super) struct Bench<'a> {
    pub(super) arguments: &'a StoreArguments,
    pub(super) options: Options,
    pub(super) runtime: &'a Runtime,
    pub(super) place: &'a BenchFolder,
}

impl Bench<'_> {
    pub(super) fn run(&self, report: &mut Report<'_, impl Write>) -> Result<(), Failure> {
        if self.wants(Workload::Step) || self.wants(Workload::Raw) {
            for producers in &self.arguments.producers {
                self.commits(*producers, report)?;
            }
        }
        let over_loaded = [Workload::Scan, Workload::Get, Workload::Sustained];
        if over_loaded.into_iter().any(|workload| self.wants(workload)) {
            self.over_loaded(report)?;
        }
        if self.wants(Workload::Open) {
            let folder = self.place.join("open");
            let (line, text) = open::run(&folder, self.arguments.load, &self.options)?;
            report.line(&line)?;
            report.text(&text)?;
            self.place.done_with(&folder);
        }
        Ok(())
    }

    fn wants(&self, workload: Workload) -> bool {
        self.arguments.workload.contains(&workload)
    }

    fn length(&self) -> Duration {
        Duration::from_secs(u64::from(self.arguments.seconds))
    }

    fn cache_mib(&self) -> u64 {
        self.options.cache_bytes >> 20
    }

    /// Measures steps, and the raw disk right before and after: a machine's speed may change within
    /// minutes.
    fn commits(&self, producers: u32, report: &mut Report<'_, impl Write>) -> Result<(), Failure> {
        let half = self.length() / 2;
        let file = self.place.join("raw");
        let mut raw = raw::run(self.runtime, &file, producers, half)?;
        let steps = if self.wants(Workload::Step) { Some(self.steps(producers)?) } else { None };
        let after = raw::run(self.runtime, &file, producers, half)?;
        let rates = [raw.driven.all.per_s(), after.driven.all.per_s()];
        let [before_per_s, after_per_s] = rates.map(|rate| round(rate, 1));
        raw.driven.all.merge(&after.driven.all);
        report.line(&Line {
            producers: Some(producers),
            fsyncs: Some(raw.fsyncs + after.fsyncs),
            bytes_given: Some(raw.bytes_given + after.bytes_given),
            more: figures!(before_per_s, after_per_s),
            ..Line::of("raw", &raw.driven.all)
        })?;
        let mean = f64::midpoint(rates[0], rates[1]);
        steps.map_or(Ok(()), |line| report.line(&line.beside(mean)))
    }

    fn steps(&self, producers: u32) -> Result<Line, Failure> {
        let folder = self.place.join(&format!("step-{producers}"));
        let store = self.open(&folder)?;
        let windows = Windows::one(self.length());
        let ran = step::run(self.runtime, &store, SEED_STEPS, producers, windows, |_| Ok(()))?;
        let line = Line {
            producers: Some(producers),
            fsyncs: Some(ran.fsyncs),
            bytes_given: Some(ran.bytes_given),
            ..Line::of("step", &ran.driven.all)
        };
        close(store)?;
        self.place.done_with(&folder);
        Ok(line)
    }

    fn over_loaded(&self, report: &mut Report<'_, impl Write>) -> Result<(), Failure> {
        let folder = self.place.join("loaded");
        let store = self.open(&folder)?;
        let loaded = LoadedStore::load(&store, self.arguments.load)?;
        if self.wants(Workload::Scan) || self.wants(Workload::Get) {
            loaded.warm_up(&store)?;
        }
        let (entries, cache_mib) = (loaded.entries(), self.cache_mib());
        let mut report_reads = |workload, stretch: Stretch, entries_each: u64| {
            let entries_per_s = round(stretch.per_s() * entries_each as f64, 1);
            let more = figures!(entries, entries_per_s, cache_mib);
            report.line(&Line { more, ..Line::of(workload, &stretch) })?;
            report.text(&format!(
                "  {entries_per_s:.0} entries/s, of {entries} loaded; cache: {cache_mib} MiB"
            ))
        };
        if self.wants(Workload::Scan) {
            let stretch = reads::scans(&store, &loaded, self.length())?;
            report_reads("scan", stretch, JOURNAL_ROWS * ROW_ENTRIES)?;
        }
        if self.wants(Workload::Get) {
            loaded.warm_up_gets(&store)?;
            report_reads("get", reads::gets(&store, &loaded, self.length())?, ROW_ENTRIES)?;
        }
        if self.wants(Workload::Sustained) {
            let runtime = self.runtime;
            let setting = Setting { runtime, store: &store, folder: &folder, loaded, cache_mib };
            sustained::run(&setting, self.length(), report)?;
        }
        close(store)?;
        self.place.done_with(&folder);
        Ok(())
    }

    fn open(&self, folder: &Path) -> Result<Store, Failure> {
        embedded::open(folder, &indelible_records::TABLES, &self.options).map_err(|error| {
            Failure::new(format!("cannot open a store: {error}"))
                .hint("choose a folder on another disk with --dir")
        })
    }
}
