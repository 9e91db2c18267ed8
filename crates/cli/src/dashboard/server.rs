//! How a server does: operations, memory, hits, clients, latency.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Gauge, Paragraph, Sparkline};

use super::{colour, is_plain, wait};
use crate::observe::{INTERVAL, Info, human_bytes, measure};
use crate::session::Session;

/// How many intervals the curves remember.
const HISTORY_LEN_MAX: usize = 500;

/// The last values of something, the newest first.
#[derive(Default)]
struct Curve(VecDeque<u64>);

impl Curve {
    fn add(&mut self, value: u64) {
        self.0.push_front(value);
        self.0.truncate(HISTORY_LEN_MAX);
    }

    fn last(&self) -> u64 {
        self.0.front().copied().unwrap_or(0)
    }

    fn max(&self) -> u64 {
        self.0.iter().copied().max().unwrap_or(0)
    }
}

/// What is shown.
struct Board {
    place: String,
    info: Info,
    /// Operations a second.
    operations: Curve,
    memory_bytes: Curve,
    latency_us: Curve,
    network_bytes: Curve,
    /// The share of reads that found their key, since the last interval.
    hit_rate: Option<f64>,
    updated: Instant,
    is_first: bool,
}

impl Board {
    fn new(session: &mut Session) -> io::Result<Board> {
        let info = Info::fetch(session)?;
        Ok(Board {
            place: session.place(),
            info,
            operations: Curve::default(),
            memory_bytes: Curve::default(),
            latency_us: Curve::default(),
            network_bytes: Curve::default(),
            hit_rate: None,
            updated: Instant::now(),
            is_first: true,
        })
    }

    fn update(&mut self, session: &mut Session) -> io::Result<()> {
        let taken = measure(session)?;
        let info = Info::fetch(session)?;
        let seconds = self.updated.elapsed().as_secs_f64().max(f64::MIN_POSITIVE);
        let grown = |name: &str| info.integer(name).saturating_sub(self.info.integer(name));
        let rate = |count: u64| (count as f64 / seconds) as u64;
        self.memory_bytes.add(info.integer("used_memory"));
        self.latency_us.add(u64::try_from(taken.as_micros()).unwrap_or(u64::MAX));
        if self.is_first {
            // There is no interval yet that rates could be of.
            self.is_first = false;
            return Ok(());
        }
        self.operations.add(rate(grown("total_commands_processed")));
        self.network_bytes.add(rate(grown("total_net_input_bytes") + grown("total_net_output_bytes")));
        let (hits, misses) = (grown("keyspace_hits"), grown("keyspace_misses"));
        if hits + misses > 0 {
            self.hit_rate = Some(hits as f64 / (hits + misses) as f64);
        }
        self.updated = Instant::now();
        self.info = info;
        Ok(())
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let [head, gauges, top, bottom, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(3),
            Constraint::Fill(1),
            Constraint::Fill(1),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        let version = match self.info.text("mantissa_version") {
            "" => format!("redis {}", self.info.text("redis_version")),
            version => format!("mantissa {version}"),
        };
        let uptime = Duration::from_secs(self.info.integer("uptime_in_seconds")).as_secs();
        let (days, hours, minutes) = (uptime / 86_400, uptime / 3600 % 24, uptime / 60 % 60);
        let title = format!(
            " {}  {version}  {}  up {days}d {hours:02}h {minutes:02}m  {} keys ",
            self.place,
            self.info.text("role"),
            self.info.keys()
        );
        frame.render_widget(Line::styled(title, Style::new().add_modifier(Modifier::REVERSED)), head);
        self.draw_gauges(frame, gauges);
        let halves = |area| Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas::<2>(area);
        let [left, right] = halves(top);
        let title = format!(" {} ops/s, at most {} ", self.operations.last(), self.operations.max());
        curve(frame, left, title, &self.operations, Color::Green);
        let title = format!(" memory {} ", human_bytes(self.memory_bytes.last()));
        curve(frame, right, title, &self.memory_bytes, Color::Magenta);
        let [left, right] = halves(bottom);
        let (last, most) = (self.latency_us.last(), self.latency_us.max());
        let title = format!(" latency of PING {last} us, at most {most} us ");
        curve(frame, left, title, &self.latency_us, Color::Yellow);
        let title = format!(" network {}/s ", human_bytes(self.network_bytes.last()));
        curve(frame, right, title, &self.network_bytes, Color::Cyan);
        frame.render_widget(Line::raw(" q: leave"), foot);
    }

    fn draw_gauges(&self, frame: &mut Frame<'_>, area: Rect) {
        let [hits, memory, clients] =
            Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1), Constraint::Fill(1)]).areas(area);
        let label = self.hit_rate.map_or("no reads yet".to_owned(), |rate| format!("{:.1} %", rate * 100.0));
        gauge(frame, hits, " hit rate ", self.hit_rate.unwrap_or(0.0), label);
        let (used, most) = (self.info.number("used_memory"), self.info.number("maxmemory"));
        let (share, label) = if most > 0.0 {
            (used / most, format!("{} of {}", human_bytes(used as u64), human_bytes(most as u64)))
        } else {
            (0.0, format!("{}, no limit", human_bytes(used as u64)))
        };
        gauge(frame, memory, " maxmemory ", share, label);
        let text = format!(
            "{} connected, {} blocked, {} rejected",
            self.info.text("connected_clients"),
            self.info.text("blocked_clients"),
            self.info.text("rejected_connections")
        );
        frame.render_widget(Paragraph::new(text).block(Block::bordered().title(" clients ")), clients);
    }
}

fn curve(frame: &mut Frame<'_>, area: Rect, title: String, curve: &Curve, shade: Color) {
    // The newest stands at the right.
    let width = usize::from(area.width.saturating_sub(2));
    let mut values: Vec<u64> = curve.0.iter().take(width).copied().collect();
    values.reverse();
    let sparkline = Sparkline::default().block(Block::bordered().title(title)).data(values);
    frame.render_widget(sparkline.style(colour(shade)), area);
}

fn gauge(frame: &mut Frame<'_>, area: Rect, title: &str, share: f64, label: String) {
    let style = if is_plain() { Style::new() } else { Style::new().fg(Color::Blue) };
    let gauge = Gauge::default().block(Block::bordered().title(title.to_owned())).gauge_style(style);
    frame.render_widget(gauge.ratio(share.clamp(0.0, 1.0)).label(label), area);
}

/// Shows the server until a person leaves.
pub(crate) fn run(session: &mut Session) -> io::Result<bool> {
    let interval = session.settings().interval.unwrap_or(INTERVAL);
    let mut board = Board::new(session)?;
    let mut terminal = ratatui::try_init()?;
    let outcome = (|| {
        loop {
            board.update(session)?;
            terminal.draw(|frame| board.draw(frame))?;
            if wait(interval)? {
                return Ok(true);
            }
        }
    })();
    ratatui::restore();
    outcome
}
