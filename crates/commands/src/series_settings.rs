//! What settings tell new time series, and the compactions that they get.
//!
//! While a log is replayed these do not count: it has what came of them.

use mantissa_store::series::{Aggregation, DuplicatePolicy, Label, Options};

/// The settings of time series.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesSettings {
    /// `ts-retention-policy`: how long samples are kept, in milliseconds; 0 is for ever.
    pub retention_ms: u64,
    /// `ts-chunk-size-bytes`.
    pub chunk_bytes: u64,
    /// `ts-encoding`, which is that of compactions.
    pub is_compressed: bool,
    /// `ts-duplicate-policy`: what holds for series that were not told.
    pub policy: DuplicatePolicy,
    /// `ts-ignore-max-time-diff`, in milliseconds.
    pub ignore_time_ms: u64,
    /// `ts-ignore-max-val-diff`.
    pub ignore_value: f64,
    /// `ts-compaction-policy`.
    pub compactions: Vec<Compaction>,
}

impl SeriesSettings {
    /// What holds where nothing is set.
    pub const NONE: &SeriesSettings = &SeriesSettings {
        retention_ms: 0,
        chunk_bytes: 4096,
        is_compressed: true,
        policy: DuplicatePolicy::Block,
        ignore_time_ms: 0,
        ignore_value: 0.0,
        compactions: Vec::new(),
    };

    /// Whether new series are told something else than they are by themselves.
    pub(crate) fn is_for_new(&self) -> bool {
        *self != SeriesSettings { policy: self.policy, ..SeriesSettings::NONE.clone() }
    }

    /// The options of a new series that was told nothing.
    pub(crate) fn options(&self) -> Options {
        Options {
            retention_ms: self.retention_ms,
            chunk_bytes: self.chunk_bytes,
            ignore_time_ms: self.ignore_time_ms,
            ignore_value: self.ignore_value,
            ..Options::default()
        }
    }
}

impl Default for SeriesSettings {
    fn default() -> Self {
        SeriesSettings::NONE.clone()
    }
}

/// A rule that new series get, with its destination.
#[derive(Clone, Debug, PartialEq)]
pub struct Compaction {
    pub(crate) aggregation: Aggregation,
    /// The length of a bucket in milliseconds, above 0.
    pub(crate) duration: i64,
    /// How long the destination keeps values, in milliseconds.
    retention_ms: u64,
    /// Where a bucket starts.
    pub(crate) align: u64,
}

impl Compaction {
    /// The key of the destination for a source.
    pub fn destination(&self, source: &[u8]) -> Vec<u8> {
        let Compaction { duration, align, .. } = self;
        let name = self.aggregation.name().to_ascii_uppercase();
        let mut key = source.to_vec();
        key.extend(format!("_{name}_{duration}").as_bytes());
        if *align > 0 {
            key.extend(format!("_{align}").as_bytes());
        }
        key
    }

    /// The options of the destination for a source with these labels.
    pub(crate) fn options(&self, settings: &SeriesSettings, labels: &[Label]) -> Options {
        let name = self.aggregation.name().to_ascii_uppercase();
        let own = [("aggregation", name), ("time_bucket", self.duration.to_string())];
        let own = own.map(|(name, value)| (name.as_bytes().into(), value.into_bytes().into()));
        Options {
            retention_ms: self.retention_ms,
            chunk_bytes: settings.chunk_bytes,
            is_compressed: settings.is_compressed,
            labels: labels.iter().cloned().chain(own).collect(),
            ..Options::default()
        }
    }
}

/// The compactions that a text such as `avg:1M:7d;max:1h:0s:30M` stands for: aggregation, length of buckets,
/// retention and alignment. Units are `m` (ms), `s`, `M` (minutes), `h` and `d`.
pub fn parse_compactions(text: &str) -> Option<Vec<Compaction>> {
    let text = text.strip_suffix(';').unwrap_or(text);
    if text.is_empty() {
        return Some(Vec::new());
    }
    text.split(';').map(parse_compaction).collect()
}

fn parse_compaction(text: &str) -> Option<Compaction> {
    let mut parts = text.split(':');
    let aggregation = Aggregation::of_name(parts.next()?.as_bytes())?;
    let duration = i64::try_from(parse_ms(parts.next()?)?).ok().filter(|&duration| duration > 0)?;
    let retention_ms = parse_ms(parts.next()?)?;
    let align = parts.next().map_or(Some(0), parse_ms)?;
    parts.next().is_none().then_some(Compaction { aggregation, duration, retention_ms, align })
}

fn parse_ms(text: &str) -> Option<u64> {
    const SECOND_MS: u64 = 1000;
    let unit = text.chars().next_back()?;
    let unit_ms = match unit {
        'm' => 1,
        's' => SECOND_MS,
        'M' => 60 * SECOND_MS,
        'h' => 3600 * SECOND_MS,
        'd' => 24 * 3600 * SECOND_MS,
        _ => return None,
    };
    let number = &text[..text.len() - unit.len_utf8()];
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let ms = number.parse::<u64>().ok().filter(|_| is_number)?.checked_mul(unit_ms)?;
    i64::try_from(ms).is_ok().then_some(ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compactions_are_read() {
        let all = parse_compactions("max:1m:1h;MIN:10s:5d:10d;twa:1d:0M:360M;").expect("it is one");
        let keys: Vec<_> = all.iter().map(|one| String::from_utf8(one.destination(b"k"))).collect();
        let keys: Vec<_> = keys.iter().map(|key| key.as_deref().expect("is text")).collect();
        assert_eq!(keys, ["k_MAX_1", "k_MIN_10000_864000000", "k_TWA_86400000_21600000"]);
        let retentions: Vec<u64> = all.iter().map(|one| one.retention_ms).collect();
        assert_eq!(retentions, [3_600_000, 432_000_000, 0]);
        assert_eq!(parse_compactions(""), Some(Vec::new()));
        for bad in [
            "max:1m",
            "max:1m:1h:1m:1m",
            "max:1.5s:1h",
            "foo:1m:1h",
            " max:1s:1h",
            "max:1s:1h; min:1s:1h",
            "max:10:1h",
            "max:0s:1h",
            "max:-1s:1h",
            "max:+1s:1h",
            "max:1é:1h",
            "max:1s:",
            ";;",
            "max:9223372036854775807d:1h",
            "max:1s:99999999999999999999h",
        ] {
            assert_eq!(parse_compactions(bad), None, "{bad}");
        }
    }
}
