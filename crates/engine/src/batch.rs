//! A batch of requests: parsed in place, its keys hashed and prefetched before the first of them runs.
//!
//! So the cache misses of a pipeline overlap. A batch knows neither sockets nor commands.

use mantissa_protocol::{Args, OwnedArgs, Parsed, RequestLimits, RequestParser, Slice};
use mantissa_store::{Ahead, KeyHash, Keyspace};
use smallvec::SmallVec;

/// Most requests that are parsed and prefetched together.
pub const BATCH_MAX: usize = 64;
/// Batches without prefetching after one that used no large collections.
const UNFETCHED_BATCHES: u32 = 64;
/// Argument slices for which memory is kept between inputs.
const SLICES_KEPT_MAX: usize = 64 << 10;

/// A parsed request of a batch.
pub struct Request {
    /// Its arguments in the batch's slices, or its own if it was an inline request with quotes.
    first: usize,
    count: usize,
    owned: Option<OwnedArgs>,
    /// Where it begins in the input.
    pub start: usize,
    /// Where it ends in the input.
    pub end: usize,
    /// The hash of its first argument, if that has been computed.
    pub hash: Option<KeyHash>,
}

impl Request {
    /// Its arguments, given the input and the slices of its batch.
    #[inline]
    pub fn args<'a>(&'a self, input: &'a [u8], slices: &'a [Slice]) -> Args<'a> {
        match &self.owned {
            Some(owned) => owned.as_args(),
            None => Args::new(input, &slices[self.first..self.first + self.count]),
        }
    }
}

/// The requests that are at hand. The memory for them is kept from one batch to the next.
#[derive(Default)]
pub struct Batch {
    /// Where the arguments of the requests lie in the input.
    pub slices: Vec<Slice>,
    /// The requests.
    pub requests: Vec<Request>,
    /// Batches until prefetching in large collections is tried again.
    until_fetching: u32,
}

impl Batch {
    /// Parses requests from `position` on, until the batch is full or the input ends. Before a login one at a
    /// time: what comes after AUTH is parsed under the limits that it brings.
    pub fn parse(
        &mut self,
        input: &[u8],
        position: &mut usize,
        parser: &mut RequestParser,
        limits: &RequestLimits,
    ) -> Parsed {
        self.slices.clear();
        self.requests.clear();
        let batch_max = if limits.authenticated { BATCH_MAX } else { 1 };
        while self.requests.len() < batch_max {
            let first = self.slices.len();
            let parsed = parser.parse_at(input, *position, limits, &mut self.slices);
            let (start, count) = (*position, self.slices.len() - first);
            let consumed = match parsed {
                Parsed::Request { consumed } => {
                    let end = start + consumed;
                    self.requests.push(Request { first, count, owned: None, start, end, hash: None });
                    consumed
                }
                Parsed::Inline { consumed, arguments } => {
                    self.push_inline(start, consumed, arguments);
                    consumed
                }
                Parsed::Empty { consumed } => consumed,
                Parsed::Incomplete { .. } | Parsed::Error(_) => return parsed,
            };
            *position += consumed;
        }
        Parsed::Empty { consumed: 0 }
    }

    /// Adds an inline request with quotes: apart, so that the others are written right to where they are
    /// kept.
    #[cold]
    fn push_inline(&mut self, start: usize, consumed: usize, arguments: OwnedArgs) {
        let owned = Some(arguments);
        self.requests.push(Request { first: 0, count: 0, owned, start, end: start + consumed, hash: None });
    }

    /// The first argument of the first request in the input. The batch itself is forgotten.
    pub fn first_key<'a>(&mut self, input: &'a [u8], limits: &RequestLimits) -> Option<&'a [u8]> {
        self.slices.clear();
        RequestParser::default().parse_at(input, 0, limits, &mut self.slices);
        self.slices.get(1).and_then(|slice| input.get(slice.range()))
    }

    /// Hashes the keys of the requests and fetches their buckets, then their entries.
    pub fn prefetch(&mut self, keyspace: &Keyspace, database: usize, input: &[u8]) {
        for request in &mut self.requests {
            if request.count >= 2 {
                let key = &input[self.slices[request.first + 1].range()];
                let hash = keyspace.hash(key);
                request.hash = Some(hash);
                keyspace.prefetch_bucket(database, hash);
            }
        }
        for hash in self.requests.iter().filter_map(|request| request.hash) {
            keyspace.prefetch_entry(database, hash);
        }
    }

    /// Fetches what the requests will look at in large collections, as long as it finds that many of them do.
    /// When they do not, it looks again now and then.
    pub fn fetch_ahead(&mut self, keyspace: &Keyspace, database: usize, input: &[u8]) {
        if self.until_fetching > 0 {
            self.until_fetching -= 1;
            return;
        }
        let mut commands: SmallVec<[Ahead<'_>; BATCH_MAX]> = SmallVec::new();
        for request in self.requests.iter_mut().filter(|request| request.count >= 3) {
            let first = request.first;
            let argument = |index: usize| &input[self.slices[first + index].range()];
            let key = *request.hash.get_or_insert_with(|| keyspace.hash(argument(1)));
            let second: &[u8] = if request.count > 3 { argument(3) } else { &[] };
            commands.push(Ahead { key, arguments: [argument(2), second] });
        }
        let large = keyspace.fetch_ahead(database, &mut commands);
        self.until_fetching = if 2 * large >= self.requests.len() { 0 } else { UNFETCHED_BATCHES };
    }

    /// Gives back the memory of an unusually long input.
    #[inline]
    pub fn trim(&mut self) {
        if self.slices.capacity() > SLICES_KEPT_MAX {
            self.slices = Vec::new();
        }
    }
}
