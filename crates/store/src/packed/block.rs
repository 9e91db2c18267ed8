//! A block: items packed into one allocation behind a pointer of eight bytes.
//!
//! ```text
//! narrow header           wide header (blocks beyond 28 KB)
//! byte 0  references u16  byte 0   references u16
//! byte 2  items u16       byte 2   unused
//! byte 4  data bytes u16  byte 6   form u16
//! byte 6  form u16        byte 8   items u32
//!                         byte 12  data bytes u32
//!                         byte 16  capacity / 8 u32, 4 bytes unused
//!
//! form = elements of an item (2 bits), has tags (1 bit), is wide (1 bit), capacity / 8 if narrow (12 bits)
//!
//! +--------+------+-------------------------------+--------------------------+------+
//! | header | tags | codes of item 0, of item 1 .. | bytes of all elements .. | free |
//! +--------+------+-------------------------------+--------------------------+------+
//! ```
//!
//! Tags (a byte of each item's hash) and codes (see [`super::element`]) lie side by side, so that looking for
//! an item compares eight tags at a time, and finds its bytes by adding up the codes before it, eight at a
//! time as well. Of both there are some more than items once these are many ([`slots_for`]).
//!
//! A block knows how many owners refer to it. Cloning counts one more; who changes a block that others refer
//! to makes a copy first. Only the sole owner writes, so that readers on other threads need no lock.
//!
//! Bytes beside the elements: 8, one for each element and one for each tag, rounded up to the size class.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU16;

use mantissa_memory::ref_count::RefCount;
use mantissa_memory::slab;
use mantissa_memory::tagged_ptr::Thin;
use mantissa_memory::{CACHE_LINE_BYTES, prefetch_lines};
use smallvec::SmallVec;

use super::element::{Count, Encoded, count_externals, span};
use super::view::{Form, Item, Position, View};

const PREFETCHED_LINES: usize = 6;
/// Cache lines of a block in a table whose items are small.
const TABLE_LINES: usize = 8;
const NARROW_HEADER: usize = 8;
/// The number of tags that are compared as one word.
const TAGS_AT_ONCE: usize = 8;
/// Blocks with tags that are larger than this have a multiple of `ROUNDING` bytes.
const ROUNDED_BYTES_MIN: usize = 256;
const ROUNDING: usize = 64;
const WIDE_HEADER: usize = 24;
/// The largest block with a narrow header: its size class still fits the header.
const NARROW_BYTES_MAX: usize = 28 << 10;
const NARROW_CAPACITY_MAX: usize = (1 << 12) * 8 - 8;
const _: () = assert!(NARROW_BYTES_MAX.is_multiple_of(ROUNDING));
const _: () = assert!(slab::class_size(NARROW_BYTES_MAX) <= NARROW_CAPACITY_MAX);

const ITEMS_AT: usize = 2;
const DATA_BYTES_AT: usize = 4;
const FORM_AT: usize = 6;
const WIDE_ITEMS_AT: usize = 8;
const WIDE_DATA_BYTES_AT: usize = 12;
const WIDE_CAPACITY_AT: usize = 16;

const STRIDE_MASK: u16 = 3;
const TAGS_BIT: u16 = 1 << 2;
const WIDE_BIT: u16 = 1 << 3;
const CAPACITY_SHIFT: u32 = 4;

/// A clone of a block with a full count is a copy.
type References = RefCount<AtomicU16>;

/// Packed items, shared between clones by a reference count. Without items it has no allocation.
pub(crate) struct Block(*mut u8);

const _: () = assert!(size_of::<Block>() == 8);

// SAFETY: a block that several refer to is only read; the count of owners is atomic.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

/// The sizes of what is in a block, from which follows where it lies.
#[derive(Clone, Copy)]
struct Shape {
    form: Form,
    items: usize,
    data_bytes: usize,
    /// The capacity of tags and codes, in items.
    slots: usize,
    /// Bytes of the header.
    header: usize,
}

/// The capacity of tags and codes, in items: up to 32 exactly, then at most a sixteenth more, so
/// that in a block of many items not every new one moves all bytes. With tags always a multiple of eight.
#[inline(always)]
fn slots_for(form: Form, items: usize) -> usize {
    let rounded = if items <= 32 { items } else { items.next_multiple_of(1 << (items.ilog2() - 4)) };
    if form.has_tags { rounded.next_multiple_of(TAGS_AT_ONCE) } else { rounded }
}

impl Shape {
    #[inline(always)]
    fn new(form: Form, items: usize, data_bytes: usize) -> Shape {
        let slots = slots_for(form, items);
        let mut shape = Shape { form, items, data_bytes, slots, header: NARROW_HEADER };
        if shape.size() > NARROW_BYTES_MAX {
            shape.header = WIDE_HEADER;
        }
        shape
    }

    #[inline(always)]
    fn lead_bytes(&self) -> usize {
        self.slots * (self.form.stride() + usize::from(self.form.has_tags))
    }

    #[inline(always)]
    fn tags_at(&self) -> usize {
        self.header
    }

    #[inline(always)]
    fn codes_at(&self) -> usize {
        self.header + if self.form.has_tags { self.slots } else { 0 }
    }

    #[inline(always)]
    fn data_at(&self) -> usize {
        self.header + self.lead_bytes()
    }

    #[inline(always)]
    fn size(&self) -> usize {
        self.data_at() + self.data_bytes
    }

    /// The size of the allocation to make: a block with tags gets some spare capacity.
    #[inline]
    fn capacity(&self) -> usize {
        let size = self.size();
        let rounds = self.form.has_tags && size > ROUNDED_BYTES_MIN;
        slab::class_size(if rounds { size.next_multiple_of(ROUNDING) } else { size })
    }

    /// Whether an allocation may be kept: all fits, and not much more has become free than need be.
    #[inline]
    fn fits(&self, capacity: usize, shrinks: bool) -> bool {
        let size = self.size();
        let wastes = || capacity - size >= (capacity / 5).max(ROUNDING) && self.capacity() < capacity;
        size <= capacity && !(shrinks && wastes())
    }
}

/// What an edit removes and reserves: whole items, or bytes of an element that stays.
struct Edit {
    /// The first item that goes or comes.
    item: usize,
    removed_items: usize,
    inserted_items: usize,
    /// Where in the data bytes go or come.
    offset: usize,
    removed_bytes: usize,
    inserted_bytes: usize,
    /// The number of the first element that goes, and how many do.
    removed_elements: (usize, usize),
}

impl Block {
    /// A block without items.
    pub(crate) const EMPTY: Block = Block(std::ptr::null_mut());

    #[inline]
    fn start(&self) -> Option<NonNull<u8>> {
        NonNull::new(self.0)
    }

    /// The number of items.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.start().map_or(0, |start| {
            // SAFETY: the block has a header.
            unsafe { read_shape(start).items }
        })
    }

    /// The number of elements of an item, if there is one.
    #[inline]
    pub(super) fn stride(&self) -> Option<usize> {
        // SAFETY: the block has a header.
        self.start().map(|start| unsafe { read_shape(start).form.stride() })
    }

    /// Bytes of the allocation.
    #[inline]
    pub(crate) fn heap_bytes(&self) -> usize {
        self.start().map_or(0, |start| {
            // SAFETY: the block has a header.
            unsafe { read_capacity(start) }
        })
    }

    /// Asks the processor for the first cache lines after the one with the header, all at once: tags, codes
    /// and the beginning of the data.
    #[inline]
    pub(super) fn prefetch(&self) {
        prefetch_lines(self.0, CACHE_LINE_BYTES..PREFETCHED_LINES * CACHE_LINE_BYTES);
    }

    /// Asks the processor for as many cache lines as a block in a table usually has.
    #[inline]
    pub(super) fn prefetch_all(&self) {
        prefetch_lines(self.0, 0..TABLE_LINES * CACHE_LINE_BYTES);
    }

    /// How items look; `form` if there are none.
    #[inline]
    fn shape(&self, form: Form) -> Shape {
        match self.start() {
            None => Shape::new(form, 0, 0),
            // SAFETY: the block has a header.
            Some(start) => unsafe { read_shape(start) },
        }
    }

    /// What is in it.
    #[inline(always)]
    pub(crate) fn view(&self) -> View<'_> {
        // SAFETY: the block is borrowed for as long as the view.
        unsafe { self.view_unbound() }
    }

    /// What is in it, for as long as the caller says.
    ///
    /// # Safety
    /// The block stays alive and unchanged for that time.
    #[inline(always)]
    pub(crate) unsafe fn view_unbound<'a>(&self) -> View<'a> {
        let Some(start) = self.start() else {
            // SAFETY: there are no elements.
            return unsafe { View::new(Form::plain(1), &[], &[], &[]) };
        };
        // SAFETY: the header tells where what is; all tags, as many codes as items have, and the data
        // have been written.
        unsafe {
            let shape = read_shape(start);
            let bytes = |at: usize, len: usize| std::slice::from_raw_parts(start.add(at).as_ptr(), len);
            let tags = if shape.form.has_tags { shape.slots } else { 0 };
            let codes = bytes(shape.codes_at(), shape.items * shape.form.stride());
            View::new(
                shape.form,
                bytes(shape.tags_at(), tags),
                codes,
                bytes(shape.data_at(), shape.data_bytes),
            )
        }
    }

    /// Inserts an item before the one at a position, or at the end. Its form is `form`, which is that of the
    /// others. `hash` is that of its first element.
    pub(crate) fn insert(&mut self, form: Form, at: Position, tag: u8, elements: &[Encoded<'_>], hash: u64) {
        debug_assert_eq!(elements.len(), form.stride());
        let edit = Edit {
            item: at.item,
            removed_items: 0,
            inserted_items: 1,
            offset: at.offset,
            removed_bytes: 0,
            inserted_bytes: elements.iter().map(Encoded::span).sum(),
            removed_elements: (0, 0),
        };
        let shape = self.edit(form, &edit);
        // SAFETY: the edit has inserted that item, in a block that nobody else refers to.
        unsafe { self.write_item(&shape, at.item, at.offset, tag, elements, hash) };
    }

    /// Adds an item at the end.
    #[inline]
    pub(crate) fn push(&mut self, form: Form, tag: u8, elements: &[Encoded<'_>], hash: u64) {
        let old = self.shape(form);
        let bytes = elements.iter().map(Encoded::span).sum::<usize>();
        let new = Shape::new(form, old.items + 1, old.data_bytes + bytes);
        if let Some(start) = self.start()
            && old.slots == new.slots
            && old.header == new.header
            && self.is_unique()
        {
            // SAFETY: the block has a header; if all fits, no byte has to move for what comes.
            unsafe {
                let capacity = read_capacity(start);
                if new.size() <= capacity {
                    write_header(start, &new, capacity);
                    return self.write_item(&new, old.items, old.data_bytes, tag, elements, hash);
                }
            }
        }
        let end = Position { item: old.items, offset: old.data_bytes };
        self.insert(form, end, tag, elements, hash);
    }

    /// Writes an item at its place and offset.
    ///
    /// # Safety
    /// The block has this shape, nobody else refers to it, and the item's place is for it to write.
    #[inline]
    unsafe fn write_item(
        &mut self,
        shape: &Shape,
        item: usize,
        offset: usize,
        tag: u8,
        elements: &[Encoded<'_>],
        hash: u64,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            if shape.form.has_tags {
                self.0.add(shape.tags_at() + item).write(tag);
            }
            let mut code_at = self.0.add(shape.codes_at() + item * shape.form.stride());
            let mut element_at = self.0.add(shape.data_at() + offset);
            for (index, element) in elements.iter().enumerate() {
                code_at.write(element.code());
                element.write(element_at, if index == 0 { hash } else { 0 });
                code_at = code_at.add(1);
                element_at = element_at.add(element.span());
            }
        }
    }

    /// Removes the item at a position.
    pub(crate) fn remove(&mut self, at: Position) {
        let view = self.view();
        let form = view.form();
        let bytes = view.next(at).offset - at.offset;
        let edit = Edit {
            item: at.item,
            removed_items: 1,
            inserted_items: 0,
            offset: at.offset,
            removed_bytes: bytes,
            inserted_bytes: 0,
            removed_elements: (at.item * form.stride(), form.stride()),
        };
        self.edit(form, &edit);
    }

    /// Puts another element in the place of one of the item at a position; not the first, whose hash the
    /// item's tag and place follow from.
    #[inline]
    pub(crate) fn replace(&mut self, at: Position, index: usize, element: &Encoded<'_>) {
        let view = self.view();
        let form = view.form();
        let codes = view.codes_of(at.item);
        debug_assert!(index > 0 && index < codes.len());
        let before: usize = codes[..index].iter().map(|&code| span(code)).sum();
        let offset = at.offset + before;
        let number = at.item * form.stride() + index;
        let edit = Edit {
            item: at.item,
            removed_items: 0,
            inserted_items: 0,
            offset,
            removed_bytes: span(codes[index]),
            inserted_bytes: element.span(),
            removed_elements: (number, 1),
        };
        let shape = self.edit(form, &edit);
        // SAFETY: the element's place in a block that nobody else refers to, with as many bytes.
        unsafe {
            self.0.add(shape.codes_at() + number).write(element.code());
            element.write(self.0.add(shape.data_at() + offset), 0);
        }
    }

    /// Makes items of two elements such of three, the third being the integer 0.
    pub(crate) fn widen_items(&mut self) {
        let view = self.view();
        if view.len() == 0 || view.form().stride == 3 {
            return;
        }
        let form = Form { stride: 3, ..view.form() };
        let mut builder = Builder::new(form, view.len(), view.data().len());
        builder.push_all(&view);
        *self = builder.finish();
    }

    /// The items that `keep` holds for, which is asked about each in order. Shared with this block if that is
    /// all of them.
    pub(crate) fn filtered(&self, mut keep: impl FnMut(Item<'_>) -> bool) -> Block {
        let view = self.view();
        // Where items that stay begin and end, several in a row as one.
        let mut runs: SmallVec<[(Position, Position); 16]> = SmallVec::new();
        let (mut items, mut bytes) = (0, 0);
        let mut at = Position::FIRST;
        while view.has(at) {
            let next = view.next(at);
            if keep(view.item(at)) {
                items += 1;
                bytes += next.offset - at.offset;
                match runs.last_mut() {
                    Some((_, end)) if *end == at => *end = next,
                    _ => runs.push((at, next)),
                }
            }
            at = next;
        }
        if items == view.len() {
            return self.clone();
        }
        if items == 0 {
            return Block::EMPTY;
        }
        let mut builder = Builder::new(view.form(), items, bytes);
        runs.iter().for_each(|&(from, to)| builder.push_run(&view, from, to));
        builder.finish()
    }

    /// Reserves capacity for `items` more items, whose elements have `bytes` bytes, if the block is not
    /// empty.
    pub(crate) fn reserve(&mut self, items: usize, bytes: usize) {
        let Some(start) = self.start() else { return };
        // SAFETY: the block has a header.
        let (old, capacity) = unsafe { (read_shape(start), read_capacity(start)) };
        let new = Shape::new(old.form, old.items + items, old.data_bytes + bytes);
        if new.header == old.header && (capacity < new.size() || !self.is_unique()) {
            self.reallocate(&old, slab::class_size(new.size()));
        }
    }

    /// Frees reserved capacity that is not needed.
    pub(crate) fn fit(&mut self) {
        let Some(start) = self.start().filter(|_| self.is_unique()) else { return };
        // SAFETY: the block has a header.
        let (shape, capacity) = unsafe { (read_shape(start), read_capacity(start)) };
        if shape.capacity() < capacity {
            self.reallocate(&shape, shape.capacity());
        }
    }

    /// Moves to an allocation of another size, of which there is no other owner. `shape` is the block's.
    fn reallocate(&mut self, shape: &Shape, capacity: usize) {
        let Some(start) = self.start() else { return };
        let (view, is_unique) = (self.view(), self.is_unique());
        debug_assert!(shape.size() <= capacity);
        // SAFETY: both allocations are large enough for the shape; what elements refer to is counted once
        // more unless the old block is given up without counting it.
        unsafe {
            if !is_unique {
                count_externals(view.codes(), view.data().as_ptr(), Count::Retain);
            }
            let new = slab::alloc(capacity);
            new.cast::<References>().write(References::new());
            write_header(new, shape, capacity);
            let (from, to) = (start.add(shape.header), new.add(shape.header));
            std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), shape.size() - shape.header);
            std::mem::replace(self, Block(new.as_ptr())).give_up(is_unique);
        }
    }

    /// Makes the block one that nobody else refers to, and inserts and removes bytes as the edit says; those
    /// inserted are to be written. Returns the new shape.
    #[inline]
    fn edit(&mut self, form: Form, edit: &Edit) -> Shape {
        let old = self.shape(form);
        debug_assert_eq!(old.form, form);
        let new = Shape::new(
            form,
            old.items - edit.removed_items + edit.inserted_items,
            old.data_bytes - edit.removed_bytes + edit.inserted_bytes,
        );
        let is_unique = self.is_unique();
        self.count_for_edit(edit, is_unique);
        if new.items == 0 {
            let old = std::mem::replace(self, Block::EMPTY);
            // SAFETY: what it refers to has been counted, if nobody else has it; else it is dropped.
            unsafe { old.give_up(is_unique) };
            return new;
        }
        if let Some(start) = self.start().filter(|_| is_unique && old.header == new.header)
            // SAFETY: the block has a header.
            && new.fits(unsafe { read_capacity(start) }, new.size() < old.size())
        {
            // SAFETY: old and new shape fit the allocation, and nobody else refers to it.
            unsafe {
                if old.slots == new.slots {
                    move_tails(start, &old, &new, edit);
                } else {
                    move_parts(start, &old, start, &new, edit);
                }
                write_header(start, &new, read_capacity(start));
            }
            return new;
        }
        let capacity = new.capacity();
        let start = slab::alloc(capacity);
        // SAFETY: the new allocation has the capacity; the old one has what its header says.
        unsafe {
            start.cast::<References>().write(References::new());
            if let Some(old_start) = self.start() {
                move_parts(old_start, &old, start, &new, edit);
            } else {
                start.add(new.tags_at()).write_bytes(0, new.lead_bytes());
            }
            write_header(start, &new, capacity);
            let old = std::mem::replace(self, Block(start.as_ptr()));
            old.give_up(is_unique);
        }
        new
    }

    /// Counts what elements refer to, as an edit changes it: a block of our own gives up what goes; from one
    /// that others keep, a copy of what stays is made.
    fn count_for_edit(&self, edit: &Edit, is_unique: bool) {
        let view = self.view();
        let (first, count) = edit.removed_elements;
        let (codes, data) = (view.codes(), view.data());
        let removed_end = edit.offset + edit.removed_bytes;
        // SAFETY: these are elements of the block, one after the other; what is released is overwritten or
        // freed by the edit.
        unsafe {
            if is_unique {
                let codes = &codes[first..first + count];
                count_externals(codes, data[edit.offset..].as_ptr(), Count::Release);
            } else if count == 0 {
                count_externals(codes, data.as_ptr(), Count::Retain);
            } else {
                count_externals(&codes[..first], data.as_ptr(), Count::Retain);
                count_externals(&codes[first + count..], data[removed_end..].as_ptr(), Count::Retain);
            }
        }
    }

    #[inline]
    fn is_unique(&self) -> bool {
        match self.start() {
            None => true,
            // SAFETY: the block has a header.
            Some(start) => unsafe { references(start).is_unique() },
        }
    }

    /// Leaves the allocation: frees it without counting what its elements refer to if `is_emptied`, and else
    /// drops the block.
    ///
    /// # Safety
    /// `is_emptied` only if nobody else refers to the block, and what its elements refer to is counted
    /// elsewhere.
    unsafe fn give_up(self, is_emptied: bool) {
        if is_emptied {
            let block = std::mem::ManuallyDrop::new(self);
            if let Some(start) = block.start() {
                // SAFETY: the caller's promise.
                unsafe { slab::dealloc(start, read_capacity(start)) };
            }
        }
    }

    /// Moves the allocation if that lets others be given back.
    pub(crate) fn compact(&mut self) {
        let Some(start) = self.start().filter(|_| self.is_unique()) else { return };
        // SAFETY: nobody else refers to the allocation, which has the size that its header tells.
        if let Some(moved) = unsafe { slab::relocate(start, read_capacity(start)) } {
            self.0 = moved.as_ptr();
        }
    }

    /// A copy in an allocation of its own.
    fn copy(&self) -> Block {
        let view = self.view();
        let mut builder = Builder::new(view.form(), view.len(), view.data().len());
        builder.push_all(&view);
        builder.finish()
    }
}

impl Clone for Block {
    #[inline]
    fn clone(&self) -> Block {
        let Some(start) = self.start() else { return Block::EMPTY };
        // SAFETY: the block has a header.
        if unsafe { references(start).try_retain() } { Block(self.0) } else { self.copy() }
    }
}

// SAFETY: blocks are aligned to eight, or null.
unsafe impl Thin for Block {
    #[inline]
    fn into_raw(self) -> *mut u8 {
        let raw = self.0;
        std::mem::forget(self);
        raw
    }

    #[inline]
    unsafe fn from_raw(raw: *mut u8) -> Block {
        Block(raw)
    }
}

impl Drop for Block {
    #[inline]
    fn drop(&mut self) {
        let Some(start) = self.start() else { return };
        // SAFETY: the block has a header; after the last release nobody else has the allocation.
        unsafe {
            if references(start).release() {
                let view = self.view();
                count_externals(view.codes(), view.data().as_ptr(), Count::Release);
                slab::dealloc(start, read_capacity(start));
            }
        }
    }
}

/// # Safety
/// A block starts there.
#[inline]
unsafe fn references<'a>(start: NonNull<u8>) -> &'a References {
    // SAFETY: the caller's promise; the count is aligned and only reached through such references.
    unsafe { start.cast::<References>().as_ref() }
}

/// # Safety
/// A block starts there.
#[inline(always)]
unsafe fn read_shape(start: NonNull<u8>) -> Shape {
    // SAFETY: the caller's promise, and the layout as drawn.
    unsafe {
        let short = |at: usize| start.add(at).cast::<u16>().read();
        let bits = short(FORM_AT);
        let form = Form { stride: (bits & STRIDE_MASK) as u8, has_tags: bits & TAGS_BIT != 0 };
        if bits & WIDE_BIT == 0 {
            let (items, data_bytes) = (usize::from(short(ITEMS_AT)), usize::from(short(DATA_BYTES_AT)));
            return Shape { form, items, data_bytes, slots: slots_for(form, items), header: NARROW_HEADER };
        }
        let long = |at: usize| start.add(at).cast::<u32>().read() as usize;
        let (items, data_bytes) = (long(WIDE_ITEMS_AT), long(WIDE_DATA_BYTES_AT));
        Shape { form, items, data_bytes, slots: slots_for(form, items), header: WIDE_HEADER }
    }
}

/// # Safety
/// A block starts there.
#[inline]
unsafe fn read_capacity(start: NonNull<u8>) -> usize {
    // SAFETY: the caller's promise, and the layout as drawn.
    unsafe {
        let bits = start.add(FORM_AT).cast::<u16>().read();
        match bits & WIDE_BIT {
            0 => usize::from(bits >> CAPACITY_SHIFT) * 8,
            _ => start.add(WIDE_CAPACITY_AT).cast::<u32>().read() as usize * 8,
        }
    }
}

/// Writes all of the header but the count of owners.
///
/// # Safety
/// The allocation has this capacity.
unsafe fn write_header(start: NonNull<u8>, shape: &Shape, capacity: usize) {
    let form = u16::from(shape.form.stride) | if shape.form.has_tags { TAGS_BIT } else { 0 };
    // SAFETY: the caller's promise.
    unsafe {
        let short = |at: usize, value: u16| start.add(at).cast::<u16>().write(value);
        if shape.header == WIDE_HEADER {
            let long = |at: usize, value: usize| {
                let value = u32::try_from(value)
                    .expect("small collections become large ones and nodes are split long before 4 GiB");
                start.add(at).cast::<u32>().write(value);
            };
            short(FORM_AT, form | WIDE_BIT);
            long(WIDE_ITEMS_AT, shape.items);
            long(WIDE_DATA_BYTES_AT, shape.data_bytes);
            long(WIDE_CAPACITY_AT, capacity / 8);
        } else {
            // Narrow blocks have at most `NARROW_BYTES_MAX` bytes, so each of these fits its bits.
            short(ITEMS_AT, shape.items as u16);
            short(DATA_BYTES_AT, shape.data_bytes as u16);
            short(FORM_AT, form | ((capacity / 8) as u16) << CAPACITY_SHIFT);
        }
    }
}

/// Moves what lies behind an edit within a block whose tags and codes stay where they are.
///
/// # Safety
/// The allocation is large enough for both shapes, which have the same slots and header.
#[inline]
unsafe fn move_tails(start: NonNull<u8>, old: &Shape, new: &Shape, edit: &Edit) {
    let stride = old.form.stride();
    let (old_next, new_next) = (edit.item + edit.removed_items, edit.item + edit.inserted_items);
    let (old_end, new_end) = (edit.offset + edit.removed_bytes, edit.offset + edit.inserted_bytes);
    // SAFETY: the caller's promise; the three parts do not reach into each other.
    unsafe {
        let copy = |from: usize, to: usize, len: usize| {
            std::ptr::copy(start.add(from).as_ptr(), start.add(to).as_ptr(), len);
        };
        if old_next != new_next {
            let items_after = old.items - old_next;
            if old.form.has_tags {
                copy(old.tags_at() + old_next, old.tags_at() + new_next, items_after);
            }
            let codes_at = old.codes_at();
            copy(codes_at + old_next * stride, codes_at + new_next * stride, items_after * stride);
        }
        if old_end != new_end {
            copy(old.data_at() + old_end, old.data_at() + new_end, old.data_bytes - old_end);
        }
    }
    // SAFETY: as above: slots beyond the items.
    unsafe { clear_spare(start, new) };
}

/// Clears tags and codes beyond the items.
///
/// # Safety
/// The allocation is large enough for the shape.
#[inline]
unsafe fn clear_spare(start: NonNull<u8>, shape: &Shape) {
    let spare = shape.slots - shape.items;
    if spare == 0 {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe {
        if shape.form.has_tags {
            start.add(shape.tags_at() + shape.items).write_bytes(0, spare);
        }
        let stride = shape.form.stride();
        start.add(shape.codes_at() + shape.items * stride).write_bytes(0, spare * stride);
    }
}

/// Moves what an edit keeps from its old place to the new one, within an allocation or to another, and clears
/// unused tags and codes.
///
/// # Safety
/// Both allocations are large enough for their shapes, and are the same or do not overlap. `old` has been
/// written.
unsafe fn move_parts(from: NonNull<u8>, old: &Shape, to: NonNull<u8>, new: &Shape, edit: &Edit) {
    let stride = old.form.stride();
    let (old_next, new_next) = (edit.item + edit.removed_items, edit.item + edit.inserted_items);
    let (old_end, new_end) = (edit.offset + edit.removed_bytes, edit.offset + edit.inserted_bytes);
    let tags = usize::from(old.form.has_tags);
    let items_after = old.items - old_next;
    // Where from, where to, how many.
    let parts = [
        (old.tags_at(), new.tags_at(), edit.item * tags),
        (old.tags_at() + old_next * tags, new.tags_at() + new_next * tags, items_after * tags),
        (old.codes_at(), new.codes_at(), edit.item * stride),
        (old.codes_at() + old_next * stride, new.codes_at() + new_next * stride, items_after * stride),
        (old.data_at(), new.data_at(), edit.offset),
        (old.data_at() + old_end, new.data_at() + new_end, old.data_bytes - old_end),
    ];
    let is_other = from != to;
    let copy = |&(source, target, len): &(usize, usize, usize)| {
        if len == 0 || (source == target && !is_other) {
            return;
        }
        // SAFETY: the caller's promise; parts lie in their shapes.
        unsafe { std::ptr::copy(from.add(source).as_ptr(), to.add(target).as_ptr(), len) };
    };
    // Within an allocation all parts move one way, so none overwrites one that has still to move.
    if new_next >= old_next && (new_next > old_next || new_end >= old_end) {
        parts.iter().rev().for_each(copy);
    } else {
        parts.iter().for_each(copy);
    }
    // SAFETY: the caller's promise.
    unsafe { clear_spare(to, new) };
}

/// A block that is being filled, with items whose number and bytes are known.
pub(super) struct Builder {
    start: NonNull<u8>,
    shape: Shape,
    items: usize,
    offset: usize,
}

impl Builder {
    /// For `items` items, more than none, whose elements have `data_bytes` bytes in all.
    pub(super) fn new(form: Form, items: usize, data_bytes: usize) -> Builder {
        let shape = Shape::new(form, items, data_bytes);
        let capacity = shape.capacity();
        let start = slab::alloc(capacity);
        // SAFETY: the allocation is large enough for the shape.
        unsafe {
            start.cast::<References>().write(References::new());
            write_header(start, &shape, capacity);
            start.add(shape.tags_at()).write_bytes(0, shape.lead_bytes());
        }
        Builder { start, shape, items: 0, offset: 0 }
    }

    /// Adds the item at a position of another block. Elements that it has fewer are the integer 0.
    pub(super) fn push(&mut self, view: &View<'_>, at: Position) {
        let codes = view.codes_of(at.item);
        let data = &view.data()[at.offset..view.next(at).offset];
        let tag = view.tags().get(at.item).copied().unwrap_or(0);
        self.push_raw(&[tag], codes, data, view.form().stride());
    }

    /// Adds the items of another block from one position to before another.
    pub(super) fn push_run(&mut self, view: &View<'_>, from: Position, to: Position) {
        let stride = view.form().stride();
        let tags = view.tags().get(from.item..to.item).unwrap_or_default();
        let codes = &view.codes()[from.item * stride..to.item * stride];
        self.push_raw(tags, codes, &view.data()[from.offset..to.offset], stride);
    }

    /// Adds all items of another block.
    pub(super) fn push_all(&mut self, view: &View<'_>) {
        self.push_raw(view.tags(), view.codes(), view.data(), view.form().stride());
    }

    /// Adds items given as a view has them, of `stride` elements each.
    fn push_raw(&mut self, tags: &[u8], codes: &[u8], data: &[u8], stride: usize) {
        let own_stride = self.shape.form.stride();
        let count = codes.len() / stride;
        assert!(self.items + count <= self.shape.items && self.offset + data.len() <= self.shape.data_bytes);
        assert!(stride <= own_stride);
        // SAFETY: the allocation is large enough for these items and bytes; the elements come from a block
        // that is borrowed, and are referred to from here as well now.
        unsafe {
            count_externals(codes, data.as_ptr(), Count::Retain);
            if self.shape.form.has_tags {
                let target = self.start.add(self.shape.tags_at() + self.items);
                std::ptr::copy_nonoverlapping(tags[..count].as_ptr(), target.as_ptr(), count);
            }
            let mut target = self.start.add(self.shape.codes_at() + self.items * own_stride);
            if stride == own_stride {
                std::ptr::copy_nonoverlapping(codes.as_ptr(), target.as_ptr(), codes.len());
            } else {
                for item in codes.chunks_exact(stride) {
                    target.write_bytes(Encoded::ZERO.code(), own_stride);
                    std::ptr::copy_nonoverlapping(item.as_ptr(), target.as_ptr(), stride);
                    target = target.add(own_stride);
                }
            }
            let target = self.start.add(self.shape.data_at() + self.offset);
            std::ptr::copy_nonoverlapping(data.as_ptr(), target.as_ptr(), data.len());
        }
        self.items += count;
        self.offset += data.len();
    }

    /// Adds items of new elements, which have as many as the form says and no tags.
    pub(super) fn push_new(&mut self, elements: &[Encoded<'_>]) {
        let stride = self.shape.form.stride();
        let count = elements.len() / stride;
        let bytes = elements.iter().map(Encoded::span).sum::<usize>();
        assert!(self.items + count <= self.shape.items && self.offset + bytes <= self.shape.data_bytes);
        assert!(count * stride == elements.len() && !self.shape.form.has_tags);
        // SAFETY: the allocation is large enough for these items and bytes.
        unsafe {
            let mut code_at = self.start.add(self.shape.codes_at() + self.items * stride);
            let mut element_at = self.start.add(self.shape.data_at() + self.offset);
            for element in elements {
                code_at.write(element.code());
                // Nobody asks for hashes where there are no tags.
                element.write(element_at.as_ptr(), 0);
                code_at = code_at.add(1);
                element_at = element_at.add(element.span());
            }
        }
        self.items += count;
        self.offset += bytes;
    }

    /// The block, once it is full.
    pub(super) fn finish(self) -> Block {
        assert!(self.items == self.shape.items && self.offset == self.shape.data_bytes);
        Block(self.start.as_ptr())
    }
}
