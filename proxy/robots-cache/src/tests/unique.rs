//! Files that have nothing in common.

/// Incompressible text: each file differs from all earlier ones in every line.
pub(crate) fn unique(n: usize, bytes: usize) -> Vec<u8> {
    let mut state = (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut body = b"User-agent: *\n".to_vec();
    while body.len() < bytes {
        body.extend_from_slice(b"Disallow: /");
        for _ in 0..8 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            body.extend(state.to_le_bytes().map(|byte| b'A' + byte % 32));
        }
        body.push(b'\n');
    }
    body.truncate(bytes);
    body
}
