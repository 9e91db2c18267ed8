//! How long a PING takes: percentiles and a histogram that grows while one looks.

use std::io;
use std::time::Instant;

use hdrhistogram::Histogram;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Bar, BarChart, BarGroup, Block, Paragraph};

use super::{colour, wait};
use crate::benchmark::LATENCY_MAX_US;
use crate::observe::{SAMPLE_INTERVAL, measure};
use crate::output::print;
use crate::session::Session;

/// Bars of the histogram for each doubling of the latency.
const BARS_PER_DOUBLING: f64 = 4.0;
const BAR_WIDTH: u16 = 7;

/// Measures and draws until a person leaves, then prints the sum.
pub(crate) fn run(session: &mut Session) -> io::Result<bool> {
    let mut taken_us = Histogram::<u64>::new_with_bounds(1, LATENCY_MAX_US, 3).map_err(io::Error::other)?;
    let place = session.place();
    let mut terminal = ratatui::try_init()?;
    let start = Instant::now();
    let outcome = (|| {
        loop {
            let taken = measure(session)?;
            taken_us.saturating_record(u64::try_from(taken.as_micros()).unwrap_or(u64::MAX).max(1));
            terminal.draw(|frame| draw(frame, &place, &taken_us))?;
            if wait(SAMPLE_INTERVAL)? {
                return Ok(true);
            }
        }
    })();
    ratatui::restore();
    let text = format!("{} ({:.1} seconds)\n", figures(&taken_us), start.elapsed().as_secs_f64());
    print(text.as_bytes())?;
    outcome
}

fn milliseconds(taken_us: u64) -> String {
    format!("{:.3}", taken_us as f64 / 1000.0)
}

fn figures(taken_us: &Histogram<u64>) -> String {
    let at = |quantile| milliseconds(taken_us.value_at_quantile(quantile));
    format!(
        "min: {}, max: {}, avg: {:.3}, p50: {}, p99: {}, p99.9: {} msec ({} samples)",
        milliseconds(taken_us.min()),
        milliseconds(taken_us.max()),
        taken_us.mean() / 1000.0,
        at(0.5),
        at(0.99),
        at(0.999),
        taken_us.len()
    )
}

fn draw(frame: &mut Frame<'_>, place: &str, taken_us: &Histogram<u64>) {
    let [head, numbers, chart, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(2),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let title = format!(" latency of PING, {place} ");
    frame.render_widget(Line::styled(title, Style::new().add_modifier(Modifier::REVERSED)), head);
    frame.render_widget(Paragraph::new(figures(taken_us)), numbers);
    let bars_max = usize::from(chart.width.saturating_sub(2) / (BAR_WIDTH + 1)).max(1);
    let bars: Vec<Bar<'_>> = classes(taken_us, bars_max)
        .into_iter()
        .map(|(limit_us, count)| {
            Bar::default().value(count).label(Line::raw(milliseconds(limit_us))).style(colour(Color::Green))
        })
        .collect();
    let chart_widget = BarChart::default()
        .block(Block::bordered().title(" samples by their upper limit in milliseconds "))
        .bar_width(BAR_WIDTH)
        .data(BarGroup::default().bars(&bars));
    frame.render_widget(chart_widget, chart);
    frame.render_widget(Line::raw(" q: leave"), foot);
}

/// The upper limits of at most `classes_max` classes of latency, with their counts.
fn classes(taken_us: &Histogram<u64>, classes_max: usize) -> Vec<(u64, u64)> {
    let (low, high) = (taken_us.min().max(1) as f64, taken_us.max().max(1) as f64);
    let wanted = ((high / low).log2() * BARS_PER_DOUBLING).ceil() as usize + 1;
    let count = wanted.clamp(1, classes_max);
    let step = (high / low).powf(1.0 / count as f64);
    let mut below = 0;
    (1..=count)
        .map(|class| {
            let last = class == count;
            let limit = if last { taken_us.max() } else { (low * step.powi(class as i32)) as u64 };
            let up_to = taken_us.count_between(0, limit);
            let here = up_to - below;
            below = up_to;
            (limit, here)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_is_in_one_class() {
        let mut taken_us =
            Histogram::<u64>::new_with_bounds(1, LATENCY_MAX_US, 3).expect("three digits are few");
        for sample in [3, 3, 9, 40, 41, 1000] {
            taken_us.record(sample).expect("in range");
        }
        for classes_max in [1, 2, 7, 100] {
            let classes = classes(&taken_us, classes_max);
            assert!(classes.len() <= classes_max);
            assert_eq!(classes.iter().map(|(_, count)| count).sum::<u64>(), 6);
        }
    }
}
