//! The thresholds up to which a collection keeps its packed encoding, as Redis's directives define them.

/// Encoding thresholds. The defaults are those of Redis 8.2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodingLimits {
    /// `hash-max-listpack-entries`: fields.
    pub hash_entries_max: usize,
    /// `hash-max-listpack-value`: bytes of a field or value.
    pub hash_value_bytes_max: usize,
    /// `list-max-listpack-size`: elements of a node if positive; if negative, -1 to -5 stand for 4, 8, 16,
    /// 32, 64 KiB.
    pub list_node_size: i64,
    /// `list-compress-depth`: nodes at each end that stay uncompressed; 0 compresses none.
    pub list_compress_depth: u32,
    /// `set-max-intset-entries`.
    pub set_intset_entries_max: usize,
    /// `set-max-listpack-entries`.
    pub set_listpack_entries_max: usize,
    /// `set-max-listpack-value`: bytes of a member.
    pub set_listpack_value_bytes_max: usize,
    /// `zset-max-listpack-entries`.
    pub sorted_set_entries_max: usize,
    /// `zset-max-listpack-value`: bytes of a member.
    pub sorted_set_value_bytes_max: usize,
    /// `stream-node-max-bytes`; 0 is no limit.
    pub stream_node_bytes_max: usize,
    /// `stream-node-max-entries`; 0 is no limit.
    pub stream_node_entries_max: usize,
}

impl Default for EncodingLimits {
    fn default() -> Self {
        EncodingLimits {
            hash_entries_max: 512,
            hash_value_bytes_max: 64,
            list_node_size: -2,
            list_compress_depth: 0,
            set_intset_entries_max: 512,
            set_listpack_entries_max: 128,
            set_listpack_value_bytes_max: 64,
            sorted_set_entries_max: 128,
            sorted_set_value_bytes_max: 64,
            stream_node_bytes_max: 4096,
            stream_node_entries_max: 100,
        }
    }
}
