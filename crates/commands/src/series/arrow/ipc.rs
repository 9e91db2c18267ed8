//! A table as a stream of Arrow's IPC format: the schema, one batch of all rows, the end.
//!
//! ```text
//! message: | -1 (u32) | bytes of the description (u32) | description, a FlatBuffer | body |
//! end:     | -1 (u32) | 0 (u32) |
//! body:    | bits of what is there | numbers | of each column, each from a multiple of 8 bytes on |
//! ```
//!
//! Two messages do not pay for the crates of Arrow: `arrow-ipc` brings 15 that are not there otherwise.

use super::flat::{Field, Flat, Place};

/// The column of times, in milliseconds.
const TIME_NAME: &str = "time";
const VERSION_5: i16 = 4;
const HEADER_SCHEMA: u8 = 1;
const HEADER_BATCH: u8 = 3;
const TYPE_DOUBLE: u8 = 3;
const TYPE_TIMESTAMP: u8 = 10;
const PRECISION_DOUBLE: i16 = 2;
const UNIT_MILLISECOND: i16 = 1;

/// A column of doubles.
pub(super) struct Column {
    pub(super) name: String,
    /// What is told of it: names and values.
    pub(super) metadata: Vec<(String, String)>,
    /// The numbers of all rows; 0 where there is none.
    pub(super) values: Vec<f64>,
    /// A bit for each row, from the lowest of each byte on: whether there is a number.
    pub(super) present: Vec<u8>,
    /// The number of those that are not there.
    pub(super) missing: usize,
}

/// The stream of a table with a column of times and these.
pub(super) fn stream(times: &[u64], columns: &[Column]) -> Vec<u8> {
    let mut out = message(0, HEADER_SCHEMA, |flat, header| schema(flat, header, columns));
    let (mut buffers, mut body_len) = (Vec::new(), 0);
    let mut add = |bytes: usize| {
        buffers.push([body_len, bytes as i64]);
        body_len += bytes.next_multiple_of(8) as i64;
    };
    let numbers_len = 8 * times.len();
    let bits_of = |column: &Column| if column.missing == 0 { 0 } else { column.present.len() };
    let bits = std::iter::once(0).chain(columns.iter().map(bits_of));
    bits.for_each(|bits| {
        add(bits);
        add(numbers_len);
    });
    let rows = times.len() as i64;
    let nodes = std::iter::once([rows, 0]).chain(columns.iter().map(|column| [rows, column.missing as i64]));
    let nodes: Vec<[i64; 2]> = nodes.collect();
    out.extend(message(body_len, HEADER_BATCH, |flat, header| {
        let [_, nodes_at, buffers_at] =
            flat.table(header, [Field::Long(rows), Field::Pointer, Field::Pointer]);
        flat.pairs(nodes_at, &nodes);
        flat.pairs(buffers_at, &buffers);
    }));
    out.reserve(body_len as usize + 8);
    out.extend(times.iter().flat_map(|time| time.to_le_bytes()));
    for column in columns {
        out.extend_from_slice(&column.present[..bits_of(column)]);
        out.resize(out.len().next_multiple_of(8), 0);
        out.extend(column.values.iter().flat_map(|value| value.to_le_bytes()));
    }
    out.extend(u32::MAX.to_le_bytes());
    out.extend(0_u32.to_le_bytes());
    out
}

/// A message without its body.
fn message(body_len: i64, kind: u8, header: impl FnOnce(&mut Flat, Place)) -> Vec<u8> {
    let (mut flat, root) = Flat::new();
    let fields = [Field::Short(VERSION_5), Field::Byte(kind), Field::Pointer, Field::Long(body_len)];
    let [_, _, header_at, _] = flat.table(root, fields);
    header(&mut flat, header_at);
    let description = flat.finish();
    let mut out = Vec::with_capacity(8 + description.len());
    out.extend(u32::MAX.to_le_bytes());
    out.extend((description.len() as u32).to_le_bytes());
    out.extend(description);
    out
}

fn schema(flat: &mut Flat, header: Place, columns: &[Column]) {
    let [_, fields] = flat.table(header, [Field::Absent, Field::Pointer]);
    let places = flat.pointers(fields, 1 + columns.len());
    let timestamp = [Field::Short(UNIT_MILLISECOND)];
    field(flat, places[0], TIME_NAME, (TYPE_TIMESTAMP, timestamp), false, &[]);
    for (&place, column) in places[1..].iter().zip(columns) {
        let double = [Field::Short(PRECISION_DOUBLE)];
        field(flat, place, &column.name, (TYPE_DOUBLE, double), true, &column.metadata);
    }
}

/// Puts the description of a column.
fn field(
    flat: &mut Flat,
    place: Place,
    name: &str,
    (kind, of_kind): (u8, [Field; 1]),
    may_miss: bool,
    metadata: &[(String, String)],
) {
    let [name_at, _, _, kind_at, _, children_at, metadata_at] = flat.table(
        place,
        [
            Field::Pointer,
            Field::Byte(may_miss.into()),
            Field::Byte(kind),
            Field::Pointer,
            Field::Absent,
            Field::Pointer,
            if metadata.is_empty() { Field::Absent } else { Field::Pointer },
        ],
    );
    flat.string(name_at, name);
    flat.table(kind_at, of_kind);
    flat.pointers(children_at, 0);
    if metadata.is_empty() {
        return;
    }
    let pairs = flat.pointers(metadata_at, metadata.len());
    for (place, (name, value)) in pairs.into_iter().zip(metadata) {
        let [name_at, value_at] = flat.table(place, [Field::Pointer, Field::Pointer]);
        flat.string(name_at, name);
        flat.string(value_at, value);
    }
}
