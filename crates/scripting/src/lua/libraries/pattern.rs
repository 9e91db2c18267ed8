//! Lua 5.1's patterns, with bounds.
//!
//! The matcher backtracks like the one in C, and recurses once for each repeated item of a pattern. The depth
//! is bounded, and each byte of the text and the pattern that a match reads is charged, so that a slow match
//! can be ended. A pattern ends at its first NUL, as in C.

use mantissa_lua::{Item, Stack};
use mlua::{Lua, Table};

use crate::lua::budget::{self, Output};
use crate::lua::native::{self, Native, Passed, Problem};

const CAPTURES_MAX: usize = 32;
const DEPTH_MAX: usize = 1000;
/// Units of work that a matcher collects before it charges for them.
const WORK: usize = 4096;
/// Bytes that are compared in the time of one unit of work.
const COMPARED_BYTES: usize = 16;
const ESCAPE: u8 = b'%';
const SPECIAL: &[u8] = b"^$*+?.([%-";

/// What a capture holds.
#[derive(Clone, Copy, PartialEq)]
enum Length {
    Open,
    Position,
    Bytes(usize),
}

/// A pattern applied to a text.
struct Matcher<'a> {
    text: &'a [u8],
    pattern: &'a [u8],
    captures: [(usize, Length); CAPTURES_MAX],
    level: usize,
    depth: usize,
    /// Units of work that have not been charged.
    work: usize,
}

fn fail<T>(text: impl Into<String>) -> Native<T> {
    Err(Problem::Text(text.into()))
}

impl<'a> Matcher<'a> {
    fn new(text: &'a [u8], pattern: &'a [u8]) -> Self {
        let pattern = pattern.split(|&byte| byte == 0).next().unwrap_or_default();
        let captures = [(0, Length::Open); CAPTURES_MAX];
        Matcher { text, pattern, captures, level: 0, depth: 0, work: 0 }
    }

    /// The end of the match that begins at `start`.
    fn at(&mut self, start: usize) -> Native<Option<usize>> {
        self.level = 0;
        self.matches(start, 0)
    }

    /// The first match from `start` on: its beginning and end.
    fn search(&mut self, start: usize, anchored: bool) -> Native<Option<(usize, usize)>> {
        for start in start..=self.text.len() {
            if let Some(end) = self.at(start)? {
                return Ok(Some((start, end)));
            }
            if anchored {
                break;
            }
        }
        Ok(None)
    }

    #[inline]
    fn spend(&mut self, work: usize) -> Native<()> {
        self.work += work;
        if self.work < WORK { Ok(()) } else { self.settle() }
    }

    /// Charges for the work since the last time.
    fn settle(&mut self) -> Native<()> {
        Ok(budget::charge(std::mem::take(&mut self.work))?)
    }

    #[inline]
    fn byte(&self, at: usize) -> u8 {
        self.pattern.get(at).copied().unwrap_or(0)
    }

    fn matches(&mut self, at: usize, item: usize) -> Native<Option<usize>> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return fail("pattern too complex");
        }
        let found = self.matches_here(at, item);
        self.depth -= 1;
        found
    }

    fn matches_here(&mut self, mut at: usize, mut item: usize) -> Native<Option<usize>> {
        loop {
            self.spend(1)?;
            if item >= self.pattern.len() {
                return Ok(Some(at));
            }
            match (self.byte(item), self.byte(item + 1)) {
                (b'(', b')') => return self.open_capture(at, item + 2, Length::Position),
                (b'(', _) => return self.open_capture(at, item + 1, Length::Open),
                (b')', _) => return self.close_capture(at, item + 1),
                (ESCAPE, b'b') => match self.balanced(at, item + 2)? {
                    Some(end) => (at, item) = (end, item + 4),
                    None => return Ok(None),
                },
                (ESCAPE, b'f') => {
                    item += 2;
                    if self.byte(item) != b'[' {
                        return fail("missing '[' after '%f' in pattern");
                    }
                    let end = self.item_end(item)?;
                    self.spend(end - item)?;
                    let before = if at == 0 { 0 } else { self.text[at - 1] };
                    let next = self.text.get(at).copied().unwrap_or(0);
                    if self.in_set(before, item, end - 1) || !self.in_set(next, item, end - 1) {
                        return Ok(None);
                    }
                    item = end;
                }
                (ESCAPE, digit) if digit.is_ascii_digit() => match self.same_as_capture(at, digit)? {
                    Some(end) => (at, item) = (end, item + 2),
                    None => return Ok(None),
                },
                (b'$', _) if item + 1 == self.pattern.len() => {
                    return Ok((at == self.text.len()).then_some(at));
                }
                _ => {
                    let end = self.item_end(item)?;
                    self.spend(end - item)?;
                    let fits = self.fits(at, item, end);
                    match self.byte(end) {
                        b'?' => {
                            if fits && let Some(found) = self.matches(at + 1, end + 1)? {
                                return Ok(Some(found));
                            }
                            item = end + 1;
                        }
                        b'*' => return self.most(at, item, end),
                        b'+' => return if fits { self.most(at + 1, item, end) } else { Ok(None) },
                        b'-' => return self.fewest(at, item, end),
                        _ if !fits => return Ok(None),
                        _ => (at, item) = (at + 1, end),
                    }
                }
            }
        }
    }

    /// The end of the item that begins at `item`.
    fn item_end(&self, item: usize) -> Native<usize> {
        let mut at = item + 1;
        match self.byte(item) {
            ESCAPE if at >= self.pattern.len() => fail("malformed pattern (ends with '%')"),
            ESCAPE => Ok(at + 1),
            b'[' => {
                if self.byte(at) == b'^' {
                    at += 1;
                }
                loop {
                    if at >= self.pattern.len() {
                        return fail("malformed pattern (missing ']')");
                    }
                    let byte = self.byte(at);
                    at += 1;
                    if byte == ESCAPE && at < self.pattern.len() {
                        at += 1;
                    }
                    if self.byte(at) == b']' && at < self.pattern.len() {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(at),
        }
    }

    /// Whether the item matches the byte at `at`.
    #[inline]
    fn fits(&self, at: usize, item: usize, end: usize) -> bool {
        let Some(&byte) = self.text.get(at) else { return false };
        match self.byte(item) {
            b'.' => true,
            ESCAPE => in_class(byte, self.byte(item + 1)),
            b'[' => self.in_set(byte, item, end - 1),
            plain => plain == byte,
        }
    }

    /// Whether a byte is in the set from `item` to the bracket at `close`.
    fn in_set(&self, byte: u8, item: usize, close: usize) -> bool {
        let mut at = item + 1;
        let mut found = true;
        if self.byte(at) == b'^' {
            found = false;
            at += 1;
        }
        while at < close {
            if self.byte(at) == ESCAPE {
                at += 1;
                if in_class(byte, self.byte(at)) {
                    return found;
                }
                at += 1;
            } else if self.byte(at + 1) == b'-' && at + 2 < close {
                if (self.byte(at)..=self.byte(at + 2)).contains(&byte) {
                    return found;
                }
                at += 3;
            } else {
                if self.byte(at) == byte {
                    return found;
                }
                at += 1;
            }
        }
        !found
    }

    fn most(&mut self, at: usize, item: usize, end: usize) -> Native<Option<usize>> {
        let mut count = self.repeated(at, item, end)?;
        loop {
            if let Some(found) = self.matches(at + count, end + 1)? {
                return Ok(Some(found));
            }
            if count == 0 {
                return Ok(None);
            }
            count -= 1;
        }
    }

    /// How many bytes from `at` on an item matches.
    fn repeated(&mut self, at: usize, item: usize, end: usize) -> Native<usize> {
        let (kind, class) = (self.byte(item), self.byte(item + 1));
        let rest = self.text.get(at..).unwrap_or_default();
        let mut count = 0;
        // The work between two charges is bounded.
        for part in rest.chunks((WORK / (end - item)).max(1)) {
            let bytes = part.iter();
            let fitting = match kind {
                b'.' => part.len(),
                ESCAPE => bytes.take_while(|&&byte| in_class(byte, class)).count(),
                b'[' => bytes.take_while(|&&byte| self.in_set(byte, item, end - 1)).count(),
                plain => bytes.take_while(|&&byte| byte == plain).count(),
            };
            count += fitting;
            self.spend(fitting * (end - item))?;
            if fitting < part.len() {
                break;
            }
        }
        Ok(count)
    }

    fn fewest(&mut self, mut at: usize, item: usize, end: usize) -> Native<Option<usize>> {
        loop {
            if let Some(found) = self.matches(at, end + 1)? {
                return Ok(Some(found));
            }
            if !self.fits(at, item, end) {
                return Ok(None);
            }
            self.spend(end - item)?;
            at += 1;
        }
    }

    fn open_capture(&mut self, at: usize, item: usize, length: Length) -> Native<Option<usize>> {
        if self.level >= CAPTURES_MAX {
            return fail("too many captures");
        }
        self.captures[self.level] = (at, length);
        self.level += 1;
        let found = self.matches(at, item)?;
        if found.is_none() {
            self.level -= 1;
        }
        Ok(found)
    }

    fn close_capture(&mut self, at: usize, item: usize) -> Native<Option<usize>> {
        let open = (0..self.level).rev().find(|&index| self.captures[index].1 == Length::Open);
        let Some(open) = open else { return fail("invalid pattern capture") };
        self.captures[open].1 = Length::Bytes(at - self.captures[open].0);
        let found = self.matches(at, item)?;
        if found.is_none() {
            self.captures[open].1 = Length::Open;
        }
        Ok(found)
    }

    fn balanced(&mut self, at: usize, item: usize) -> Native<Option<usize>> {
        if item + 1 >= self.pattern.len() {
            return fail("unbalanced pattern");
        }
        let (open, close) = (self.byte(item), self.byte(item + 1));
        if self.text.get(at) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1usize;
        for (index, &byte) in self.text.iter().enumerate().skip(at + 1) {
            self.spend(1)?;
            if byte == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(index + 1));
                }
            } else if byte == open {
                depth += 1;
            }
        }
        Ok(None)
    }

    fn same_as_capture(&mut self, at: usize, digit: u8) -> Native<Option<usize>> {
        let index = usize::from(digit).wrapping_sub(usize::from(b'1'));
        if index >= self.level || self.captures[index].1 == Length::Open {
            return fail("invalid capture index");
        }
        // No text is the same as a position.
        if self.captures[index].1 == Length::Position {
            return Ok(None);
        }
        let captured = self.captured(index);
        self.spend(captured.len() / COMPARED_BYTES)?;
        let found = self.text.get(at..).is_some_and(|rest| rest.starts_with(captured));
        Ok(found.then_some(at + captured.len()))
    }

    fn captured(&self, index: usize) -> &'a [u8] {
        match self.captures[index] {
            (start, Length::Bytes(len)) => self.text.get(start..start + len).unwrap_or_default(),
            _ => &[],
        }
    }

    /// A capture. Without captures the first is the whole match.
    fn capture(&self, index: usize, (start, end): (usize, usize)) -> Native<Capture<'a>> {
        if index >= self.level {
            if index > 0 {
                return fail("invalid capture index");
            }
            return Ok(Capture::Text(&self.text[start..end]));
        }
        match self.captures[index].1 {
            Length::Open => fail("unfinished capture"),
            Length::Position => Ok(Capture::Position(self.captures[index].0 + 1)),
            Length::Bytes(_) => Ok(Capture::Text(self.captured(index))),
        }
    }

    /// Pushes all captures and returns their number.
    fn push_captures(&self, stack: &mut Stack<'_>, whole: (usize, usize)) -> Native<usize> {
        let count = self.level.max(1);
        for index in 0..count {
            match self.capture(index, whole)? {
                Capture::Text(text) => stack.push_text(text)?,
                Capture::Position(position) => stack.push_number(position as f64)?,
            }
        }
        Ok(count)
    }
}

/// What a capture is.
enum Capture<'a> {
    Text(&'a [u8]),
    /// Counted from 1.
    Position(usize),
}

/// Whether a byte is in the class of a letter, such as `%a`. Other bytes match themselves.
#[inline]
fn in_class(byte: u8, class: u8) -> bool {
    let found = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b' ' | b'\t'..=b'\r'),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    found != class.is_ascii_uppercase()
}

/// A start argument as an index from 0; negative ones count from the end.
fn start_index(start: i64, len: usize) -> usize {
    let start = if start < 0 { start.saturating_add(len as i64 + 1) } else { start };
    usize::try_from(start.saturating_sub(1)).unwrap_or(0).min(len)
}

/// Replacements for functions of `string`.
pub fn functions(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.set("find", native::in_place(lua, |stack| find(stack, "find", true))?)?;
    table.set("match", native::in_place(lua, |stack| find(stack, "match", false))?)?;
    table.set("rep", native::in_place(lua, repeat)?)?;
    for name in ["gmatch", "gfind"] {
        table.set(name, native::maker(lua, move |stack| gmatch(stack, name), next_match)?)?;
    }
    Ok(table)
}

/// The functions that the prelude needs for `gsub`.
pub fn helpers(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.set("search", native::in_place(lua, search)?)?;
    table.set("replace", native::in_place(lua, replace)?)?;
    Ok(table)
}

fn push_nil(stack: &mut Stack<'_>) -> Native<usize> {
    stack.push_nil()?;
    Ok(1)
}

/// Pushes the first and the last byte of a match, from 1.
fn push_bounds(stack: &mut Stack<'_>, start: usize, end: usize) -> Native<usize> {
    stack.push_number((start + 1) as f64)?;
    stack.push_number(end as f64)?;
    Ok(2)
}

fn find(stack: &mut Stack<'_>, name: &str, finds: bool) -> Native<usize> {
    let (text, pattern) = (stack.text(0, name)?, stack.text(1, name)?);
    let (text, pattern) = (&*text, &*pattern);
    let start = start_index(stack.integer_or(2, 1, name)?, text.len());
    let is_true = !matches!(stack.value(3), Item::None | Item::Nil | Item::Boolean(false));
    let until_nul = pattern.split(|&byte| byte == 0).next().unwrap_or_default();
    if finds && (is_true || !until_nul.iter().any(|byte| SPECIAL.contains(byte))) {
        return match find_plain(&text[start..], pattern)? {
            Some(at) => push_bounds(stack, start + at, start + at + pattern.len()),
            None => push_nil(stack),
        };
    }
    let (anchored, pattern) = split_anchor(pattern);
    let mut matcher = Matcher::new(text, pattern);
    let found = matcher.search(start, anchored)?;
    matcher.settle()?;
    let Some((first, end)) = found else { return push_nil(stack) };
    let bounds = if finds { push_bounds(stack, first, end)? } else { 0 };
    if finds && matcher.level == 0 {
        return Ok(bounds);
    }
    Ok(bounds + matcher.push_captures(stack, (first, end))?)
}

fn split_anchor(pattern: &[u8]) -> (bool, &[u8]) {
    match pattern.strip_prefix(b"^") {
        Some(rest) => (true, rest),
        None => (false, pattern),
    }
}

/// The first position of `wanted` in `text`, searched by its first byte.
fn find_plain(text: &[u8], wanted: &[u8]) -> Native<Option<usize>> {
    let Some((first, rest)) = wanted.split_first() else { return Ok(Some(0)) };
    let mut from = 0;
    while let Some(passed) = text[from..].iter().position(|byte| byte == first) {
        from += passed;
        if text[from + 1..].starts_with(rest) {
            return Ok(Some(from));
        }
        budget::charge(1 + (passed + rest.len()) / COMPARED_BYTES)?;
        from += 1;
    }
    Ok(None)
}

/// `gmatch`: pushes the values of a function that finds the next match each time.
fn gmatch(stack: &mut Stack<'_>, name: &str) -> Native<usize> {
    for index in 0..2 {
        let text = stack.text(index, name)?;
        match stack.value(index) {
            Item::Text(_) => stack.push_copy(index as isize + 1)?,
            _ => stack.push_text(&text)?,
        }
    }
    stack.push_number(0.0)?;
    Ok(3)
}

/// The function that `gmatch` makes: returns the captures of the next match.
fn next_match(stack: &mut Stack<'_>) -> Native<usize> {
    /// Its values: the text, the pattern, and where in the text the next search begins.
    const TEXT: usize = 0;
    const PATTERN: usize = 1;
    const START: usize = 2;
    let (Item::Text(text), Item::Text(pattern), Item::Number(start)) =
        (stack.own(TEXT), stack.own(PATTERN), stack.own(START))
    else {
        return Ok(0);
    };
    let mut matcher = Matcher::new(text, pattern);
    matcher.spend(pattern.len() / COMPARED_BYTES)?;
    let found = matcher.search(start as usize, false)?;
    matcher.settle()?;
    let next = found.map_or(text.len() + 1, |(first, end)| end.max(first + usize::from(end == first)));
    stack.set_own_number(START, next as f64)?;
    match found {
        Some(found) => matcher.push_captures(stack, found),
        None => Ok(0),
    }
}

/// `search(text, pattern, start, anchored)`: first and last byte of the next match, and its captures.
fn search(stack: &mut Stack<'_>) -> Native<usize> {
    let (text, pattern) = (stack.text(0, "gsub")?, stack.text(1, "gsub")?);
    let start = stack.integer(2, "gsub")?.saturating_sub(1);
    let anchored = stack.value(3) == Item::Boolean(true);
    let mut matcher = Matcher::new(&text, &pattern);
    let start = usize::try_from(start).unwrap_or(usize::MAX);
    let found = matcher.search(start, anchored)?;
    matcher.settle()?;
    let Some((first, end)) = found else { return Ok(0) };
    Ok(push_bounds(stack, first, end)? + matcher.push_captures(stack, (first, end))?)
}

/// `gsub` with a text as the replacement.
fn replace(stack: &mut Stack<'_>) -> Native<usize> {
    let (text, pattern) = (stack.text(0, "gsub")?, stack.text(1, "gsub")?);
    let (anchored, pattern) = split_anchor(&pattern);
    let replacement = stack.text(2, "gsub")?;
    let count_max = stack.integer_or(3, text.len() as i64 + 1, "gsub")? as i32;
    let mut matcher = Matcher::new(&text, pattern);
    let (mut out, mut at, mut count) = (Output::default(), 0, 0);
    while count < count_max {
        let found = matcher.at(at)?;
        if let Some(end) = found {
            count += 1;
            expand(stack, &matcher, &replacement, (at, end), &mut out)?;
        }
        match found {
            Some(end) if end > at => at = end,
            _ if at < text.len() => {
                out.push(stack, text[at])?;
                at += 1;
            }
            _ => break,
        }
        if anchored {
            break;
        }
    }
    matcher.settle()?;
    out.extend(stack, &text[at.min(text.len())..])?;
    stack.push_text(out.as_bytes())?;
    stack.push_number(f64::from(count))?;
    Ok(2)
}

/// Appends a replacement: `%1` is the first capture, `%0` the whole match.
fn expand(
    stack: &Stack<'_>,
    matcher: &Matcher<'_>,
    replacement: &[u8],
    whole: (usize, usize),
    out: &mut Output,
) -> Native<()> {
    let mut rest = replacement;
    while let Some(at) = rest.iter().position(|&byte| byte == ESCAPE) {
        out.extend(stack, &rest[..at])?;
        match rest.get(at + 1).copied().unwrap_or(0) {
            b'0' => out.extend(stack, &matcher.text[whole.0..whole.1])?,
            digit @ b'1'..=b'9' => match matcher.capture(usize::from(digit - b'1'), whole)? {
                Capture::Text(text) => out.extend(stack, text)?,
                Capture::Position(position) => out.extend(stack, position.to_string().as_bytes())?,
            },
            other => out.push(stack, other)?,
        }
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    out.extend(stack, rest)
}

fn repeat(stack: &mut Stack<'_>) -> Native<usize> {
    let text = stack.text(0, "rep")?;
    let count = usize::try_from(stack.integer(1, "rep")? as i32).unwrap_or(0);
    let len = text.len().saturating_mul(count);
    budget::admit(stack, len)?;
    stack.push_text(&text.repeat(if len == 0 { 0 } else { count }))?;
    Ok(1)
}
