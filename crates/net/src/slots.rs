//! Connections by slot and generation.
//!
//! A slot is reused, its generation is not (until it wraps after 2^32 uses of one slot), so an id that
//! outlived its connection finds nothing. Slots are kept in blocks: growing never moves a connection.

/// Names one connection of one driver: a slot, and the generation that tells its successive connections
/// apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Conn {
    slot: u32,
    generation: u32,
}

const _: () = assert!(size_of::<Conn>() == 8);

impl Conn {
    /// Names no connection.
    pub const NONE: Conn = Conn { slot: u32::MAX, generation: u32::MAX };

    /// A small number, unique among the live connections of a driver: an index for side tables.
    pub fn index(self) -> usize {
        self.slot as usize
    }

    pub(crate) fn slot(self) -> u32 {
        self.slot
    }

    /// The connection as a number.
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.slot)
    }

    /// The connection of a number that [`Conn::to_bits`] has made.
    pub fn from_bits(bits: u64) -> Conn {
        Conn { slot: bits as u32, generation: (bits >> 32) as u32 }
    }
}

const BLOCK: usize = 256;

struct Slot<T> {
    generation: u32,
    /// Whether the id with this generation is good. If not, a value may still await its removal.
    live: bool,
    value: Option<T>,
}

/// The connections of a driver. `live` counts those whose id is still good.
pub(crate) struct Slots<T> {
    blocks: Vec<Box<[Slot<T>]>>,
    free: Vec<u32>,
    live: usize,
}

impl<T> Slots<T> {
    pub(crate) fn new() -> Self {
        Slots { blocks: Vec::new(), free: Vec::new(), live: 0 }
    }

    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// The number of slots that exist, used or free.
    pub(crate) fn capacity(&self) -> usize {
        self.blocks.len() * BLOCK
    }

    pub(crate) fn insert(&mut self, value: T) -> Conn {
        if self.free.is_empty() {
            let first = self.capacity() as u32;
            self.blocks.push((0..BLOCK).map(|_| Slot { generation: 0, live: false, value: None }).collect());
            self.free.extend((first..first + BLOCK as u32).rev());
        }
        let slot = self.free.pop().expect("a block has just been added to an empty list");
        let entry = self.entry(slot).expect("a free slot lies in a block");
        debug_assert!(entry.value.is_none() && !entry.live);
        entry.value = Some(value);
        entry.live = true;
        let generation = entry.generation;
        self.live += 1;
        Conn { slot, generation }
    }

    fn entry(&mut self, slot: u32) -> Option<&mut Slot<T>> {
        let slot = slot as usize;
        self.blocks.get_mut(slot / BLOCK)?.get_mut(slot % BLOCK)
    }

    pub(crate) fn get(&self, conn: Conn) -> Option<&T> {
        let slot = conn.slot as usize;
        let entry = self.blocks.get(slot / BLOCK)?.get(slot % BLOCK)?;
        if entry.live && entry.generation == conn.generation { entry.value.as_ref() } else { None }
    }

    pub(crate) fn get_mut(&mut self, conn: Conn) -> Option<&mut T> {
        let entry = self.entry(conn.slot)?;
        if entry.live && entry.generation == conn.generation { entry.value.as_mut() } else { None }
    }

    /// The live id in `slot`.
    pub(crate) fn id(&self, slot: u32) -> Option<Conn> {
        let entry = self.blocks.get(slot as usize / BLOCK)?.get(slot as usize % BLOCK)?;
        entry.live.then_some(Conn { slot, generation: entry.generation })
    }

    /// What lies in `slot`, and its id, which is dead if it has been retired.
    pub(crate) fn at(&mut self, slot: u32) -> Option<(Conn, &mut T)> {
        let entry = self.entry(slot)?;
        let generation = entry.generation;
        entry.value.as_mut().map(|value| (Conn { slot, generation }, value))
    }

    /// Whether `slot` holds a value whose id is dead.
    pub(crate) fn is_retired(&mut self, slot: u32) -> bool {
        self.entry(slot).is_some_and(|entry| !entry.live && entry.value.is_some())
    }

    /// Ends the life of an id. The value stays in its slot, reachable through `at`, until `remove`.
    pub(crate) fn retire(&mut self, conn: Conn) {
        let Some(entry) = self.entry(conn.slot) else { return };
        if entry.live && entry.generation == conn.generation {
            entry.live = false;
            entry.generation = entry.generation.wrapping_add(1);
            self.live -= 1;
        }
    }

    /// Takes the value out of a retired slot. The slot is not reused before `release`.
    pub(crate) fn remove(&mut self, slot: u32) -> Option<T> {
        self.entry(slot)?.value.take()
    }

    /// Makes an emptied slot available again.
    pub(crate) fn release(&mut self, slot: u32) {
        debug_assert!(self.at(slot).is_none());
        self.free.push(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_id_finds_nothing_in_a_reused_slot() {
        let mut slots = Slots::new();
        let first = slots.insert("first");
        slots.retire(first);
        assert_eq!(slots.get(first), None);
        assert_eq!(slots.live(), 0);
        assert_eq!(slots.remove(first.slot()), Some("first"));
        slots.release(first.slot());
        let second = slots.insert("second");
        assert_eq!(second.index(), first.index());
        assert_ne!(second, first);
        assert_eq!(slots.get(first), None);
        assert_eq!(slots.get_mut(second), Some(&mut "second"));
        assert_eq!(Conn::from_bits(second.to_bits()), second);
    }

    #[test]
    fn slots_are_dense_and_grow_by_blocks() {
        let mut slots = Slots::new();
        for number in 0..3 * BLOCK {
            assert_eq!(slots.insert(number).index(), number);
        }
        assert_eq!(slots.capacity(), 3 * BLOCK);
        assert_eq!(slots.live(), 3 * BLOCK);
    }
}
