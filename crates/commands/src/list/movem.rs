//! LMOVEM and BLMOVEM: several elements move from an end of one list to an end of another at once.
//!
//! They are logged as a push and a pop that come to the same, which servers without these commands know.

use mantissa_number::INTEGER_TEXT_MAX;
use mantissa_protocol::{Args, Reply};
use mantissa_store::{Kind, List, ListEnd};

use super::{by_end, end_of, remove_at, settle, taken};
use crate::access::Access;
use crate::effects::{EventClass, TimeoutReply};
use crate::error::{Error, Outcome};
use crate::parse;

/// What is to be moved.
struct Plan<'a> {
    source: &'a [u8],
    destination: &'a [u8],
    from: ListEnd,
    to: ListEnd,
    /// Most elements to move.
    count: usize,
    /// Nothing is moved unless there are `count` elements.
    exactly: bool,
    /// Each element goes to the outside of the one before, where a block keeps its order.
    one_by_one: bool,
}

impl<'a> Plan<'a> {
    fn new(args: Args<'a>) -> Outcome<Self> {
        Ok(Plan {
            source: args.at(1),
            destination: args.at(2),
            from: end_of(args.at(3))?,
            to: end_of(args.at(4))?,
            count: 1,
            exactly: false,
            one_by_one: false,
        })
    }

    /// Reads how many elements are to be moved, and in which order, from argument number `at` on.
    fn with_options(mut self, args: Args<'_>, at: usize) -> Outcome<Self> {
        if args.len() == at {
            return Ok(self);
        }
        if args.len() != at + 3 {
            return Err(Error::SYNTAX);
        }
        self.exactly = parse::is(args.at(at), "EXACTLY");
        if !self.exactly && !parse::is(args.at(at), "COUNT") {
            return Err(Error::SYNTAX);
        }
        let count = parse::integer_in(args.at(at + 1), 1, i64::MAX, "ERR count should be greater than 0")?;
        self.count = usize::try_from(count).unwrap_or(usize::MAX);
        self.one_by_one = parse::is(args.at(at + 2), "OBO");
        if !self.one_by_one && !parse::is(args.at(at + 2), "BULK") {
            return Err(Error::SYNTAX);
        }
        Ok(self)
    }

    /// Moves elements and replies them in the order that they have in the destination. False if there are too
    /// few.
    fn run(&self, access: &mut Access<'_>, reply: &mut Reply) -> Outcome<bool> {
        let limits = &access.settings().limits;
        let (source, destination) = (self.source, self.destination);
        let Some(list) = access.list_mut(source)? else { return Ok(false) };
        let len = list.len();
        let count = self.count.min(len);
        if count == 0 || (self.exactly && count < self.count) {
            return Ok(false);
        }
        let start = if self.from == ListEnd::Head { 0 } else { len - count };
        let moved = Elements::of(list, (start, start + count), self.one_by_one && self.from == self.to);
        let is_empty = if source == destination {
            remove_at(list, self.from, count);
            moved.push(list, self.to, limits);
            settle(list, limits)
        } else {
            moved.push(access.list_or_new(destination)?, self.to, limits);
            access.list_mut(source)?.is_some_and(|list| {
                remove_at(list, self.from, count);
                settle(list, limits)
            })
        };
        access.changed_by(destination, 0);
        access.event(EventClass::LIST, by_end(self.to, "lpush", "rpush"), destination);
        taken(access, source, by_end(self.from, "lpop", "rpop"), (count, is_empty));
        if access.logs() {
            self.log(access, &moved, len);
        }
        reply.array(count);
        moved.iter().for_each(|element| reply.bulk(element));
        Ok(true)
    }

    /// Logs a push and a pop. `len` is how long the source was.
    fn log(&self, access: &mut Access<'_>, moved: &Elements, len: usize) {
        let is_same = self.source == self.destination;
        let takes_all = moved.len() == len;
        // A key that is left without elements goes, with its expiry: what stays there is pushed before.
        let to = match self.from {
            ListEnd::Head if is_same && takes_all => ListEnd::Tail,
            ListEnd::Tail if is_same && takes_all => ListEnd::Head,
            _ => self.to,
        };
        let count = moved.len().to_string();
        let pop = [by_end(self.from, "LPOP", "RPOP").as_bytes(), self.source, count.as_bytes()];
        let mut push = vec![by_end(to, "LPUSH", "RPUSH").as_bytes(), self.destination];
        match to {
            ListEnd::Head => push.extend(moved.iter().rev()),
            ListEnd::Tail => push.extend(moved.iter()),
        }
        let pops_first = is_same && self.from == to;
        if pops_first {
            access.log_instead(&pop);
        }
        access.log_instead(&push);
        if !pops_first {
            access.log_instead(&pop);
        }
    }
}

/// Texts of elements, from head to tail, one behind the other.
struct Elements {
    bytes: Vec<u8>,
    /// Where each of them ends.
    ends: Vec<usize>,
}

impl Elements {
    /// Those in a range of places of a list.
    fn of(list: &List, (from, to): (usize, usize), is_reversed: bool) -> Elements {
        let mut elements = Elements { bytes: Vec::new(), ends: Vec::with_capacity(to - from) };
        let mut add = |element: mantissa_store::listpack::Element<'_>| {
            elements.bytes.extend_from_slice(element.text(&mut [0; INTEGER_TEXT_MAX]));
            elements.ends.push(elements.bytes.len());
        };
        match is_reversed {
            true => list.range(from, to).rev().for_each(&mut add),
            false => list.range(from, to).for_each(&mut add),
        }
        elements
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn iter(&self) -> impl DoubleEndedIterator<Item = &[u8]> + Clone {
        (0..self.ends.len()).map(|number| {
            let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
            &self.bytes[start..self.ends[number]]
        })
    }

    /// Adds them at an end of a list, where they have the same order.
    fn push(&self, list: &mut List, end: ListEnd, limits: &mantissa_store::EncodingLimits) {
        match end {
            ListEnd::Head => list.extend(end, self.iter().rev(), limits),
            ListEnd::Tail => list.extend(end, self.iter(), limits),
        }
    }
}

pub(super) fn lmovem(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if !Plan::new(args)?.with_options(args, 5)?.run(access, reply)? {
        reply.null_array();
    }
    Ok(())
}

pub(super) fn blmovem(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let plan = Plan::new(args)?;
    let deadline = parse::timeout(args.at(5), access.now_ms())?;
    let plan = plan.with_options(args, 6)?;
    if plan.run(access, reply)? {
        return Ok(());
    }
    let destination = Some(plan.destination);
    access.block(reply, (Kind::List, [plan.source]), destination, deadline, TimeoutReply::NullArray);
    if let Some(blocking) = access.blocking_mut() {
        blocking.on_growth = plan.exactly && plan.count > 1;
    }
    Ok(())
}
