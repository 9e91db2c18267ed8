//! SORT: lists, sets and sorted sets in order of their elements, or of values found elsewhere by patterns.
//!
//! Elements and weights are borrowed from the keyspace while they are sorted: 64 bytes for each element, none
//! copied.

use std::cmp::Ordering;
use std::ops::Range;

use mantissa_protocol::{Args, Reply};
use mantissa_store::listpack::Element;
use mantissa_store::{Kind, List, StringRef, Value, ValueRef};

use crate::DataSpec;
use crate::access::Access;
use crate::effects::EventClass;
use crate::error::{Error, Outcome};
use crate::parse;
use crate::spec::{
    BeginSearch, Categories, FindKeys, Flags, Group, KeyFlags, KeyPosition, KeyPositions, KeySpec, Locks,
    Traits,
};

/// The options of SORT.
struct Options<'a> {
    descending: bool,
    alphabetic: bool,
    /// First element wanted, and how many if not negative.
    limit: Option<(i64, i64)>,
    by: Option<Pattern<'a>>,
    get: Vec<Pattern<'a>>,
    store: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn parse(args: Args<'a>, may_store: bool) -> Outcome<Options<'a>> {
        let mut options = Options {
            descending: false,
            alphabetic: false,
            limit: None,
            by: None,
            get: Vec::new(),
            store: None,
        };
        let mut at = 2;
        while let Some(option) = args.get(at) {
            let left = args.len() - at - 1;
            at += 1;
            if parse::is(option, "ASC") {
                options.descending = false;
            } else if parse::is(option, "DESC") {
                options.descending = true;
            } else if parse::is(option, "ALPHA") {
                options.alphabetic = true;
            } else if parse::is(option, "LIMIT") && left >= 2 {
                options.limit = Some((parse::integer(args.at(at))?, parse::integer(args.at(at + 1))?));
                at += 2;
            } else if parse::is(option, "STORE") && may_store && left >= 1 {
                options.store = Some(args.at(at));
                at += 1;
            } else if parse::is(option, "BY") && left >= 1 {
                options.by = Some(match Pattern::parse(args.at(at)) {
                    Pattern::Element => Pattern::Nowhere,
                    pattern => pattern,
                });
                at += 1;
            } else if parse::is(option, "GET") && left >= 1 {
                options.get.push(Pattern::parse(args.at(at)));
                at += 1;
            } else {
                return Err(Error::SYNTAX);
            }
        }
        Ok(options)
    }

    /// The part of `len` elements that is wanted.
    fn window(&self, len: usize) -> Range<usize> {
        let Some((first, count)) = self.limit else { return 0..len };
        let start = usize::try_from(first).unwrap_or(0).min(len);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        start..start.saturating_add(count).min(len)
    }
}

/// Where to find a value for an element.
enum Pattern<'a> {
    /// `#`: the element itself.
    Element,
    /// No `*` in it: nothing is found.
    Nowhere,
    /// The key, whose parts enclose the element, and the field of a hash, if any.
    Key { before: &'a [u8], after: &'a [u8], field: Option<&'a [u8]> },
}

impl<'a> Pattern<'a> {
    fn parse(text: &'a [u8]) -> Pattern<'a> {
        if text == b"#" {
            return Pattern::Element;
        }
        let Some(star) = text.iter().position(|&byte| byte == b'*') else { return Pattern::Nowhere };
        let (before, after) = (&text[..star], &text[star + 1..]);
        let arrow = after.windows(2).position(|pair| pair == b"->").filter(|at| at + 2 < after.len());
        match arrow {
            Some(at) => Pattern::Key { before, after: &after[..at], field: Some(&after[at + 2..]) },
            None => Pattern::Key { before, after, field: None },
        }
    }

    /// The value for an element. `key` is scratch space.
    fn find<'k>(
        &self,
        access: &'k Access<'_>,
        element: Element<'k>,
        key: &mut Vec<u8>,
    ) -> Outcome<Option<Element<'k>>> {
        let (before, after, field) = match *self {
            Pattern::Element => return Ok(Some(element)),
            Pattern::Nowhere => return Ok(None),
            Pattern::Key { before, after, field } => (before, after, field),
        };
        key.clear();
        key.extend_from_slice(before);
        key.extend_from_slice(element.text(&mut [0; 20]));
        key.extend_from_slice(after);
        let Some(entry) = access.read(key) else { return Ok(None) };
        if !access.bring(key, entry)? {
            return Ok(None);
        }
        Ok(match (entry.value(), field) {
            (ValueRef::String(StringRef::Bytes(text)), None) => Some(Element::Bytes(text)),
            (ValueRef::String(StringRef::Integer(number)), None) => Some(Element::Integer(number)),
            (ValueRef::Hash(hash), Some(field)) => {
                let alive = |expiry: Option<i64>| expiry.is_none_or(|time| time > access.now_ms());
                hash.get(field).filter(|(_, expiry)| alive(*expiry)).map(|(value, _)| value)
            }
            _ => None,
        })
    }
}

/// What an element is sorted by.
#[derive(Clone, Copy)]
enum Weight<'k> {
    Number(f64),
    /// `None` sorts before every text.
    Text(Option<Element<'k>>),
    /// The element itself, as a text.
    Itself,
}

struct Record<'k> {
    element: Element<'k>,
    weight: Weight<'k>,
    /// Place among the unsorted elements; keeps the order of those that are equal.
    place: usize,
}

fn sort(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let options = Options::parse(args, true)?;
    unpack_sorted_set(access, args.at(1));
    let elements = sorted_elements(access, args.at(1), &options)?;
    let Some(target) = options.store else {
        return write_elements(access, &elements, &options, reply);
    };
    let list = stored_list(access, &elements, &options)?;
    access.leave_if_unread()?;
    let len = list.len();
    if len == 0 {
        access.delete(target);
    } else {
        access.put(target, Value::List(list), None)?;
        access.changed_by(target, len as u64);
        access.event(EventClass::LIST, "sortstore", target);
    }
    reply.integer(len as i64);
    Ok(())
}

fn sort_ro(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let options = Options::parse(args, false)?;
    unpack_sorted_set(access, args.at(1));
    let elements = sorted_elements(access, args.at(1), &options)?;
    write_elements(access, &elements, &options, reply)
}

/// The elements wanted, in order.
fn sorted_elements<'k>(
    access: &'k Access<'_>,
    key: &[u8],
    options: &Options<'_>,
) -> Outcome<Vec<Element<'k>>> {
    let value = access.read(key).map(|entry| entry.value());
    let keeps_order = matches!(options.by, Some(Pattern::Nowhere));
    let mut is_set = false;
    let all: Vec<Element<'k>> = match value {
        None => Vec::new(),
        Some(ValueRef::List(list)) if keeps_order => {
            return Ok(in_stored_order(list.len(), options, |range| list.range(range.start, range.end)));
        }
        Some(ValueRef::SortedSet(set)) if keeps_order => {
            let members = |range: Range<usize>| set.range(range).map(|(member, _)| Element::Bytes(member));
            return Ok(in_stored_order(set.len(), options, members));
        }
        Some(ValueRef::Set(set)) if keeps_order && options.store.is_none() && !access.in_script => {
            let window = options.window(set.len());
            return Ok(set.iter().skip(window.start).take(window.len()).collect());
        }
        Some(ValueRef::List(list)) => list.iter().collect(),
        Some(ValueRef::Set(set)) => {
            is_set = true;
            set.iter().collect()
        }
        Some(ValueRef::SortedSet(set)) => set.iter().map(|(member, _)| Element::Bytes(member)).collect(),
        Some(_) => return Err(Error::WRONG_TYPE),
    };
    sort_elements(access, all, is_set, options)
}

/// Takes a sorted set out of its packed encoding for good, which sorting does in Redis.
fn unpack_sorted_set(access: &mut Access<'_>, key: &[u8]) {
    let limits = &access.settings().limits;
    if access.kind(key) == Some(Kind::SortedSet)
        && let Ok(Some(set)) = access.sorted_set_mut(key)
    {
        set.expect(usize::MAX, 0, limits);
    }
}

/// The wanted part of a sequence in its own order, or from its end if the order is descending.
fn in_stored_order<'k, I: DoubleEndedIterator<Item = Element<'k>>>(
    len: usize,
    options: &Options<'_>,
    range: impl FnOnce(Range<usize>) -> I,
) -> Vec<Element<'k>> {
    let window = options.window(len);
    if options.descending {
        range(len - window.end..len - window.start).rev().collect()
    } else {
        range(window).collect()
    }
}

fn sort_elements<'k>(
    access: &'k Access<'_>,
    elements: Vec<Element<'k>>,
    is_set: bool,
    options: &Options<'_>,
) -> Outcome<Vec<Element<'k>>> {
    // The order of a set is an accident; what is stored, and what a script does, must not depend on it.
    let is_accidental = matches!(options.by, Some(Pattern::Nowhere));
    let by = options.by.as_ref().filter(|_| !is_accidental);
    let mut key = Vec::new();
    let mut records = Vec::with_capacity(elements.len());
    let mut has_failed = false;
    for (place, element) in elements.into_iter().enumerate() {
        let found = match by {
            Some(pattern) => pattern.find(access, element, &mut key)?,
            None => Some(element),
        };
        let weight = match (options.alphabetic || is_accidental, by) {
            (true, None) => Weight::Itself,
            (true, Some(_)) => Weight::Text(found),
            (false, _) => match found.map_or(Some(0.0), number) {
                Some(number) => Weight::Number(number),
                None => {
                    has_failed = true;
                    continue;
                }
            },
        };
        records.push(Record { element, weight, place });
    }
    access.leave_if_unread()?;
    if has_failed {
        return Err(Error::fixed("ERR One or more scores can't be converted into double"));
    }
    let window = options.window(records.len());
    // What is only shown is collated as C does it, up to the first NUL.
    let order = Order { descending: options.descending, ends_at_nul: options.store.is_none(), is_set };
    let compare = |one: &Record<'_>, other: &Record<'_>| order.compare(one, other);
    if window.len() < records.len() / 2 && !window.is_empty() {
        // Only the wanted range is sorted; first it is selected.
        if window.end < records.len() {
            records.select_nth_unstable_by(window.end, compare);
            records.truncate(window.end);
        }
        if window.start > 0 {
            records.select_nth_unstable_by(window.start, compare);
        }
        records[window.start..].sort_unstable_by(compare);
    } else {
        records.sort_unstable_by(compare);
    }
    Ok(records[window].iter().map(|record| record.element).collect())
}

/// The number that an element or weight stands for.
fn number(text: Element<'_>) -> Option<f64> {
    match text {
        Element::Integer(number) => Some(number as f64),
        Element::Bytes(text) => mantissa_number::parse_score_bound(text),
    }
}

struct Order {
    descending: bool,
    ends_at_nul: bool,
    /// Places are an accident.
    is_set: bool,
}

impl Order {
    fn compare(&self, one: &Record<'_>, other: &Record<'_>) -> Ordering {
        let order = match (one.weight, other.weight) {
            (Weight::Number(a), Weight::Number(b)) => {
                let order = a.partial_cmp(&b).unwrap_or(Ordering::Equal);
                order.then_with(|| compare_texts(one.element, other.element, false))
            }
            (Weight::Text(None), Weight::Text(None)) => Ordering::Equal,
            (Weight::Text(None), _) => Ordering::Less,
            (_, Weight::Text(None)) => Ordering::Greater,
            (Weight::Text(Some(a)), Weight::Text(Some(b))) => compare_texts(a, b, self.ends_at_nul),
            _ => compare_texts(one.element, other.element, self.ends_at_nul),
        };
        let order = match self.is_set {
            true => order.then_with(|| compare_texts(one.element, other.element, false)),
            false => order,
        };
        let order = if self.descending { order.reverse() } else { order };
        order.then(one.place.cmp(&other.place))
    }
}

fn compare_texts(one: Element<'_>, other: Element<'_>, ends_at_nul: bool) -> Ordering {
    let (mut digits, mut other_digits) = ([0; 20], [0; 20]);
    let (one, other) = (one.text(&mut digits), other.text(&mut other_digits));
    let end = |text: &[u8]| text.iter().position(|&byte| ends_at_nul && byte == 0).unwrap_or(text.len());
    match one.cmp(other) {
        Ordering::Equal => Ordering::Equal,
        _ if ends_at_nul => one[..end(one)].cmp(&other[..end(other)]),
        order => order,
    }
}

/// Calls `visit` for everything that SORT returns.
fn for_each_result(
    access: &Access<'_>,
    elements: &[Element<'_>],
    options: &Options<'_>,
    mut visit: impl FnMut(Option<Element<'_>>),
) -> Outcome {
    let mut key = Vec::new();
    for &element in elements {
        if options.get.is_empty() {
            visit(Some(element));
        }
        for pattern in &options.get {
            visit(pattern.find(access, element, &mut key)?);
        }
    }
    Ok(())
}

fn write_elements(
    access: &Access<'_>,
    elements: &[Element<'_>],
    options: &Options<'_>,
    reply: &mut Reply,
) -> Outcome {
    reply.array(elements.len() * options.get.len().max(1));
    for_each_result(access, elements, options, |result| match result {
        Some(Element::Bytes(text)) => reply.bulk(text),
        Some(Element::Integer(number)) => reply.bulk_integer(number),
        None => reply.null(),
    })?;
    access.leave_if_unread()
}

fn stored_list(access: &Access<'_>, elements: &[Element<'_>], options: &Options<'_>) -> Outcome<List> {
    let limits = &access.settings().limits;
    let mut list = List::new();
    for_each_result(access, elements, options, |result| {
        let result = result.unwrap_or(Element::Bytes(b""));
        list.push_back(result.text(&mut [0; 20]), limits);
    })?;
    Ok(list)
}

/// The key after the last STORE of a SORT, whose options no key specification can tell from their values.
fn find_destination(args: Args<'_>, found: &mut KeyPositions) {
    let mut at = 2;
    let mut destination = None;
    while let Some(option) = args.get(at) {
        let operands = match &option.to_ascii_uppercase()[..] {
            b"LIMIT" => 2,
            b"GET" | b"BY" => 1,
            b"STORE" => {
                let flags = KeyFlags::OW.or(KeyFlags::UPDATE);
                let given = args.get(at + 1).map(|_| KeyPosition { index: at + 1, flags });
                destination = given.or(destination);
                1
            }
            _ => 0,
        };
        at += 1 + operands;
    }
    found.extend(destination);
}

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] = &[
    DataSpec::new("sort", -2, sort, Flags::WRITE.or(Flags::DENYOOM).or(Flags::MOVABLE_KEYS))
        .locks(Locks::All)
        .categories(Categories::SET.or(Categories::SORTEDSET).or(Categories::LIST).or(Categories::DANGEROUS))
        .keys(&[
            KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS)),
            KeySpec::other(BeginSearch::Unknown, FindKeys::Unknown, KeyFlags::RO.or(KeyFlags::ACCESS))
                .notes("Keys that follow from BY and GET patterns and the elements"),
            KeySpec::other(BeginSearch::Unknown, FindKeys::Unknown, KeyFlags::OW.or(KeyFlags::UPDATE))
                .notes("STORE may stand anywhere among the options"),
        ])
        .more_keys(find_destination)
        .traits(Traits::READS_BY_PATTERN)
        .docs(
            Group::Generic,
            "1.0.0",
            "O(N+M*log(M)) for N elements of which M are returned",
            "Sorts a list, a set or a sorted set, and may store the result.",
        )
        .arguments(
            "key:key#0 by-pattern:pattern#1@BY?^pattern limit:block(offset:integer \
            count:integer)@LIMIT? get-pattern:pattern#1@GET?**^pattern order:oneof(asc:pure-token@ASC \
            desc:pure-token@DESC)? sorting:pure-token@ALPHA? destination:key#2@STORE?",
        ),
    DataSpec::new("sort_ro", -2, sort_ro, Flags::READONLY.or(Flags::MOVABLE_KEYS))
        .locks(Locks::All)
        .categories(Categories::SET.or(Categories::SORTEDSET).or(Categories::LIST).or(Categories::DANGEROUS))
        .keys(&[
            KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS)),
            KeySpec::other(BeginSearch::Unknown, FindKeys::Unknown, KeyFlags::RO.or(KeyFlags::ACCESS))
                .notes("Keys that follow from BY and GET patterns and the elements"),
        ])
        .traits(Traits::READS_BY_PATTERN)
        .docs(
            Group::Generic,
            "7.0.0",
            "O(N+M*log(M)) for N elements of which M are returned",
            "Sorts a list, a set or a sorted set.",
        )
        .arguments(
            "key:key#0 by-pattern:pattern#1@BY?^pattern limit:block(offset:integer \
            count:integer)@LIMIT? get-pattern:pattern#1@GET?**^pattern order:oneof(asc:pure-token@ASC \
            desc:pure-token@DESC)? sorting:pure-token@ALPHA?",
        ),
];
