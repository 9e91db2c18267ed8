//! What has never been used of slabs goes back to the system.
//!
//! One test alone in its process, as it reads how much memory that has.

#![cfg(all(target_os = "linux", not(feature = "whole_allocations")))]

use std::ptr::NonNull;

use mantissa_memory::slab;

/// Bytes of memory that this process has, but for those of files.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("it is there");
    line.trim_end_matches("kB").trim().parse::<usize>().expect("a number") << 10
}

/// Cells of one size, each full of its number.
fn fill(cells: &mut Vec<NonNull<u8>>, size: usize, count: usize) {
    for _ in 0..count {
        let memory = slab::alloc(size);
        // SAFETY: as many bytes have been allocated.
        unsafe { memory.as_ptr().write_bytes(cells.len() as u8, size) };
        cells.push(memory);
    }
}

#[test]
fn slabs_that_were_opened_for_little_cost_little() {
    // Sizes of which each has slabs of its own: of 8, 16 and 32 KB.
    let sizes: Vec<usize> =
        (8..=256).step_by(8).chain((272..=512).step_by(16)).chain((544..=1024).step_by(32)).collect();
    let mut cells = vec![Vec::new(); sizes.len()];
    let resident_before = resident_bytes();
    for (cells, size) in cells.iter_mut().zip(&sizes) {
        fill(cells, *size, 1);
    }
    // They all lie in one huge page, where the system has those.
    let held = slab::held_bytes();
    assert!((1_000_000..2_000_000).contains(&held), "{held} bytes of slabs");
    for _ in 0..10 {
        slab::purge();
    }
    let resident = resident_bytes().saturating_sub(resident_before);
    assert!(resident <= held / 2, "{resident} bytes are resident for {held} bytes of slabs");
    // What has gone back can be used, and what lies before it is as it was.
    for round in 0..3 {
        for (cells, size) in cells.iter_mut().zip(&sizes) {
            fill(cells, *size, 10 + 100 * round);
        }
        slab::purge();
    }
    for (cells, size) in cells.iter().zip(&sizes) {
        for (number, cell) in cells.iter().enumerate() {
            // SAFETY: allocated with this size, written, and given back once, after the last look.
            unsafe {
                let bytes = std::slice::from_raw_parts(cell.as_ptr(), *size);
                assert!(bytes.iter().all(|byte| *byte == number as u8));
                slab::dealloc(*cell, *size);
            }
        }
    }
}
