//! A field of a large hash with its value, in one allocation behind a pointer of eight bytes.
//!
//! ```text
//! byte 0  form: width of the field's length (2 bits), of the value's (2 bits), expiry present (1 bit)
//! then    expiry, Unix time in ms (8 bytes, only if present)
//! then    length of the field, length of the value (1, 2, 4 or 8 bytes each), field, value
//! ```
//!
//! Bytes per field: 3 beside field and value where both are shorter than 256 bytes, 8 more with an expiry,
//! rounded up to the size class.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error, realloc};
use std::ptr::NonNull;

use crate::allocator::class_size;

const VALUE_WIDTH_SHIFT: u8 = 2;
const WIDTH_MASK: u8 = 3;
const EXPIRY_BIT: u8 = 1 << 4;
const EXPIRY_OFFSET: usize = 1;

const _: () = assert!(size_of::<Pair>() == 8 && cfg!(target_endian = "little"));

/// See the module's description.
pub(super) struct Pair(NonNull<u8>);

/// The place of a pair in memory, which names it for as long as it stays there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct PairPlace(NonNull<u8>);

// SAFETY: a pair owns what it points to.
unsafe impl Send for Pair {}
// SAFETY: shared access only reads.
unsafe impl Sync for Pair {}
// SAFETY: a place is only compared here; following it asks for a promise of the caller.
unsafe impl Send for PairPlace {}
// SAFETY: as above.
unsafe impl Sync for PairPlace {}

impl PairPlace {
    /// The field of the pair at this place.
    ///
    /// # Safety
    /// The pair is alive and stays so, unmoved and unchanged, while the result is used.
    pub(super) unsafe fn field<'a>(self) -> &'a [u8] {
        let shape = Shape::read(self.0);
        // SAFETY: the caller's promise; the field lies behind the header.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().add(shape.header), shape.field) }
    }
}

/// The sizes that the first bytes of a pair tell.
#[derive(Clone, Copy)]
struct Shape {
    form: u8,
    header: usize,
    field: usize,
    value: usize,
}

/// How wide a length is stored: the power of two of this number of bytes.
fn width_of(len: usize) -> u8 {
    match len {
        0..=0xff => 0,
        0x100..=0xffff => 1,
        0x1_0000..=0xffff_ffff => 2,
        _ => 3,
    }
}

impl Shape {
    fn new(field: usize, value: usize, has_expiry: bool) -> Shape {
        let (field_width, value_width) = (width_of(field), width_of(value));
        let form = field_width | value_width << VALUE_WIDTH_SHIFT | if has_expiry { EXPIRY_BIT } else { 0 };
        let header = 1 + if has_expiry { 8 } else { 0 } + (1 << field_width) + (1 << value_width);
        Shape { form, header, field, value }
    }

    #[inline]
    fn read(start: NonNull<u8>) -> Shape {
        // SAFETY: `start` is that of a pair, whose first bytes have this layout.
        unsafe {
            let form = start.read();
            let widths = (form & WIDTH_MASK, form >> VALUE_WIDTH_SHIFT & WIDTH_MASK);
            let lengths = if form & EXPIRY_BIT != 0 { EXPIRY_OFFSET + 8 } else { EXPIRY_OFFSET };
            let field = read_length(start.add(lengths), widths.0);
            let value = read_length(start.add(lengths + (1 << widths.0)), widths.1);
            Shape { form, header: lengths + (1 << widths.0) + (1 << widths.1), field, value }
        }
    }

    fn size(self) -> usize {
        self.header + self.field + self.value
    }

    fn layout(self) -> Layout {
        Layout::from_size_align(self.size(), 1).expect("field and value are shorter than the address space")
    }
}

/// Reads a length of a width that [`width_of`] gave.
///
/// # Safety
/// So many bytes can be read.
#[inline]
unsafe fn read_length(from: NonNull<u8>, width: u8) -> usize {
    // SAFETY: the caller's promise.
    unsafe {
        match width {
            0 => usize::from(from.read()),
            1 => usize::from(from.cast::<u16>().read_unaligned()),
            2 => from.cast::<u32>().read_unaligned() as usize,
            _ => from.cast::<u64>().read_unaligned() as usize,
        }
    }
}

impl Pair {
    pub(super) fn new(field: &[u8], value: &[u8], expiry: Option<i64>) -> Pair {
        let shape = Shape::new(field.len(), value.len(), expiry.is_some());
        let layout = shape.layout();
        // SAFETY: the layout is not empty, and everything is written within it.
        unsafe {
            let start = NonNull::new(alloc(layout)).unwrap_or_else(|| handle_alloc_error(layout));
            write_header(start, shape, expiry);
            let bytes = start.add(shape.header);
            std::ptr::copy_nonoverlapping(field.as_ptr(), bytes.as_ptr(), field.len());
            std::ptr::copy_nonoverlapping(value.as_ptr(), bytes.add(field.len()).as_ptr(), value.len());
            Pair(start)
        }
    }

    #[inline]
    pub(super) fn field(&self) -> &[u8] {
        // SAFETY: the pair is borrowed for as long as the result.
        unsafe { self.place().field() }
    }

    #[inline]
    pub(super) fn value(&self) -> &[u8] {
        let shape = Shape::read(self.0);
        // SAFETY: the value lies behind the field.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().add(shape.header + shape.field), shape.value) }
    }

    #[inline]
    pub(super) fn expiry(&self) -> Option<i64> {
        // SAFETY: the bit says that the expiry is there.
        unsafe {
            let has_expiry = self.0.read() & EXPIRY_BIT != 0;
            has_expiry.then(|| self.0.add(EXPIRY_OFFSET).cast::<i64>().read_unaligned())
        }
    }

    /// Where it lies, until it is changed.
    #[inline]
    pub(super) fn place(&self) -> PairPlace {
        PairPlace(self.0)
    }

    /// Bytes of its allocation.
    pub(super) fn heap_bytes(&self) -> usize {
        class_size(Shape::read(self.0).size())
    }

    /// Replaces the value; in place if the allocation's size allows it.
    pub(super) fn set_value(&mut self, value: &[u8]) {
        let old = Shape::read(self.0);
        let new = Shape::new(old.field, value.len(), old.form & EXPIRY_BIT != 0);
        if new.form != old.form {
            *self = Pair::new(self.field(), value, self.expiry());
            return;
        }
        // SAFETY: header and field stay; the value is written within the new size, and cannot overlap the
        // pair, which is borrowed exclusively.
        unsafe {
            if new.size() != old.size() {
                let moved = realloc(self.0.as_ptr(), old.layout(), new.size());
                self.0 = NonNull::new(moved).unwrap_or_else(|| handle_alloc_error(new.layout()));
                write_header(self.0, new, self.expiry());
            }
            let target = self.0.add(new.header + new.field);
            std::ptr::copy_nonoverlapping(value.as_ptr(), target.as_ptr(), value.len());
        }
    }

    /// Sets or removes the expiry.
    pub(super) fn set_expiry(&mut self, expiry: Option<i64>) {
        match (self.expiry(), expiry) {
            (None, None) => {}
            // SAFETY: the expiry is there already.
            (Some(_), Some(time)) => unsafe {
                self.0.add(EXPIRY_OFFSET).cast::<i64>().write_unaligned(time);
            },
            _ => *self = Pair::new(self.field(), self.value(), expiry),
        }
    }
}

/// Writes what stands before the field.
///
/// # Safety
/// The allocation at `start` has the size that `shape` tells.
unsafe fn write_header(start: NonNull<u8>, shape: Shape, expiry: Option<i64>) {
    debug_assert_eq!(expiry.is_some(), shape.form & EXPIRY_BIT != 0);
    // SAFETY: the caller's promise; the lengths fit the widths that were chosen for them.
    unsafe {
        start.write(shape.form);
        let mut at = start.add(EXPIRY_OFFSET);
        if let Some(time) = expiry {
            at.cast::<i64>().write_unaligned(time);
            at = at.add(8);
        }
        let widths = [shape.form & WIDTH_MASK, shape.form >> VALUE_WIDTH_SHIFT & WIDTH_MASK];
        for (len, width) in [shape.field, shape.value].into_iter().zip(widths) {
            let bytes = len.to_le_bytes();
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), at.as_ptr(), 1 << width);
            at = at.add(1 << width);
        }
    }
}

impl Clone for Pair {
    fn clone(&self) -> Pair {
        Pair::new(self.field(), self.value(), self.expiry())
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // SAFETY: it has this layout, and nothing else owns it.
        unsafe { dealloc(self.0.as_ptr(), Shape::read(self.0).layout()) }
    }
}
