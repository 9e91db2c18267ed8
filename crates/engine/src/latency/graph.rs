//! Drawing the samples of an event with characters: four rows of bars, and below each bar the age of its
//! sample, read downwards. The bars grow from the least to the greatest sample, a row in three steps.

use super::Series;

const COLUMNS: usize = 80;
const ROWS: usize = 4;
/// The top of a bar, in a third, two thirds and the whole of a row.
const TOPS: [char; 3] = ['_', 'o', '#'];
const STEPS: u64 = (ROWS * TOPS.len()) as u64;

/// The graph with its heading.
pub(super) fn draw(event: &str, series: &Series, now_unix_seconds: i64) -> String {
    let values: Vec<u64> = series.samples.iter().map(|sample| sample.milliseconds).collect();
    let labels: Vec<Vec<char>> = series
        .samples
        .iter()
        .map(|sample| age(now_unix_seconds.saturating_sub(sample.unix_seconds)).chars().collect())
        .collect();
    let low = values.iter().copied().min().unwrap_or(0);
    let high = values.iter().copied().max().unwrap_or(0);
    let top = series.milliseconds_max;
    let mut text = format!("{event} - high {high} ms, low {low} ms (all time high {top} ms)\n");
    text.push_str(&"-".repeat(COLUMNS));
    text.push('\n');
    let range = (high - low).max(1);
    let steps: Vec<usize> = values.iter().map(|value| step(value - low, range)).collect();
    for (index, (steps, labels)) in steps.chunks(COLUMNS).zip(labels.chunks(COLUMNS)).enumerate() {
        if index > 0 {
            text.push('\n');
        }
        draw_bars(&mut text, steps);
        text.extend(std::iter::repeat_n(' ', steps.len()));
        text.push('\n');
        draw_labels(&mut text, labels);
    }
    text
}

/// The height of a bar, 0 to one less than the steps there are.
fn step(value: u64, range: u64) -> usize {
    let step = u128::from(value) * u128::from(STEPS) / u128::from(range);
    step.min(u128::from(STEPS) - 1) as usize
}

fn draw_bars(text: &mut String, steps: &[usize]) {
    for below in (0..ROWS).rev() {
        // The steps that lie below this row.
        let base = below * TOPS.len();
        text.extend(steps.iter().map(|step| match step.checked_sub(base) {
            None => ' ',
            Some(height) => TOPS.get(height).copied().unwrap_or('|'),
        }));
        text.push('\n');
    }
}

fn draw_labels(text: &mut String, labels: &[Vec<char>]) {
    let rows = labels.iter().map(Vec::len).max().unwrap_or(0);
    for row in 0..rows {
        text.extend(labels.iter().map(|label| label.get(row).copied().unwrap_or(' ')));
        text.push('\n');
    }
}

/// An age in the greatest unit that it fills.
fn age(seconds: i64) -> String {
    match seconds {
        ..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::Sample;

    fn series(milliseconds: &[u64]) -> Series {
        let mut series = Series::default();
        for (second, &milliseconds) in milliseconds.iter().enumerate() {
            series.add(Sample { unix_seconds: second as i64, milliseconds });
        }
        series
    }

    #[test]
    fn equal_samples_lie_on_the_ground() {
        let text = draw("x", &series(&[5, 5]), 120);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(lines, ["  ", "  ", "  ", "__", "  ", "21", "mm"]);
    }

    #[test]
    fn more_than_a_line_of_samples_goes_on_below() {
        let text = draw("x", &series(&vec![u64::MAX; 100]), 90_000);
        let widths: Vec<usize> = text.lines().skip(1).map(str::len).collect();
        assert_eq!(widths, [80, 80, 80, 80, 80, 80, 80, 80, 0, 20, 20, 20, 20, 20, 20, 20]);
        assert_eq!(step(u64::MAX, u64::MAX), 11);
    }
}
