//! Masks, which clients put on their payloads (RFC 6455, section 5.3).

/// Bytes that are copied and unmasked at a time, so that the second finds them in the first-level cache.
const STEP_BYTES: usize = 8 << 10;
/// Two registers of SSE2, one of AVX2. The compiler makes vector instructions of a loop over such blocks.
const BLOCK_BYTES: usize = 32;

/// Appends `masked` without its mask. `offset` is how many bytes of the payload came before.
pub fn unmask(masked: &[u8], key: [u8; 4], offset: usize, out: &mut Vec<u8>) {
    let key: [u8; 4] = std::array::from_fn(|at| key[(offset + at) % 4]);
    if key == [0; 4] {
        return out.extend_from_slice(masked);
    }
    // A multiple of the key's length, so each step begins with the key's first byte.
    for step in masked.chunks(STEP_BYTES) {
        let from = out.len();
        out.extend_from_slice(step);
        apply(&mut out[from..], key);
    }
}

fn apply(bytes: &mut [u8], key: [u8; 4]) {
    let wide: [u8; BLOCK_BYTES] = std::array::from_fn(|at| key[at % 4]);
    let (blocks, rest) = bytes.as_chunks_mut::<BLOCK_BYTES>();
    for block in blocks {
        for (byte, mask) in block.iter_mut().zip(&wide) {
            *byte ^= mask;
        }
    }
    for (byte, mask) in rest.iter_mut().zip(&wide) {
        *byte ^= mask;
    }
}
