//! [`Buffer`]: what the session asks of the messages that carry data between the socket and the device.

/// A message with room for data. The session moves buffers and hands out their bytes, and never copies one.
pub(crate) trait Buffer: Sized {
    /// A buffer for `len` bytes of data; `None` when there is no memory for it.
    fn with_payload(len: usize) -> Option<Self>;

    /// The data.
    fn payload(&self) -> &[u8];

    /// The data, to be filled.
    fn payload_mut(&mut self) -> &mut [u8];
}

#[cfg(test)]
impl Buffer for Vec<u8> {
    fn with_payload(len: usize) -> Option<Self> {
        Some(vec![0; len])
    }

    fn payload(&self) -> &[u8] {
        self
    }

    fn payload_mut(&mut self) -> &mut [u8] {
        self
    }
}
