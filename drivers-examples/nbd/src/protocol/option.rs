//! Options of the handshake: parsing what INFO and GO ask for, and writing replies.

use super::constants::{INFO_BLOCK_SIZE, INFO_EXPORT, INFO_NAME, OPTION_REPLY_MAGIC, REP_ACK, REP_INFO, REP_SERVER};
use super::export::Export;

/// The data of an INFO or GO option, as it lies in the client's bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InfoQuery<'a> {
    pub(crate) name: &'a [u8],
    /// The kinds of information asked for, two bytes each.
    requests: &'a [u8],
}

impl<'a> InfoQuery<'a> {
    /// Takes the data apart; `None` when its lengths do not add up.
    pub(crate) fn parse(data: &'a [u8]) -> Option<Self> {
        let (length, rest) = data.split_first_chunk()?;
        let (name, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        let (count, requests) = rest.split_first_chunk()?;
        let count = usize::from(u16::from_be_bytes(*count));
        (requests.len() == 2 * count).then_some(Self { name, requests })
    }

    /// Whether this kind of information was asked for.
    pub(crate) fn asks_for(&self, kind: u16) -> bool {
        self.requests.chunks_exact(2).any(|request| request == kind.to_be_bytes())
    }
}

/// Writes the replies to one option behind each other.
#[derive(Debug)]
pub(crate) struct Replies<'a> {
    option: u32,
    out: &'a mut Vec<u8>,
}

impl<'a> Replies<'a> {
    pub(crate) fn to(option: u32, out: &'a mut Vec<u8>) -> Self {
        Self { option, out }
    }

    pub(crate) fn ack(&mut self) {
        self.reply(REP_ACK, &[]);
    }

    /// An error, with a text that the client may show to its user.
    pub(crate) fn error(&mut self, kind: u32, text: &str) {
        self.reply(kind, &[text.as_bytes()]);
    }

    /// One entry of a list.
    pub(crate) fn server(&mut self, export: &Export) {
        let name = export.name.as_bytes();
        self.reply(REP_SERVER, &[&(name.len() as u32).to_be_bytes(), name]);
    }

    /// Size and flags of the export.
    pub(crate) fn info_export(&mut self, export: &Export) {
        let flags = export.transmission_flags().to_be_bytes();
        self.reply(REP_INFO, &[&INFO_EXPORT.to_be_bytes(), &export.size.to_be_bytes(), &flags]);
    }

    /// The export's own name, of use to a client that asked for the default one.
    pub(crate) fn info_name(&mut self, export: &Export) {
        self.reply(REP_INFO, &[&INFO_NAME.to_be_bytes(), export.name.as_bytes()]);
    }

    /// Minimum, preferred and maximum block size.
    pub(crate) fn info_block_size(&mut self, export: &Export) {
        let [minimum, preferred, maximum] = export.block_sizes().map(u32::to_be_bytes);
        self.reply(REP_INFO, &[&INFO_BLOCK_SIZE.to_be_bytes(), &minimum, &preferred, &maximum]);
    }

    fn reply(&mut self, kind: u32, parts: &[&[u8]]) {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        self.out.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
        self.out.extend_from_slice(&self.option.to_be_bytes());
        self.out.extend_from_slice(&kind.to_be_bytes());
        self.out.extend_from_slice(&(length as u32).to_be_bytes());
        for part in parts {
            self.out.extend_from_slice(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn query(name: &[u8], requests: &[u16]) -> Vec<u8> {
        let mut data = (name.len() as u32).to_be_bytes().to_vec();
        data.extend_from_slice(name);
        data.extend_from_slice(&(requests.len() as u16).to_be_bytes());
        requests.iter().for_each(|request| data.extend_from_slice(&request.to_be_bytes()));
        data
    }

    #[test]
    fn an_info_query_is_taken_apart() {
        let data = query(b"disk", &[INFO_NAME, INFO_BLOCK_SIZE]);
        let parsed = InfoQuery::parse(&data).unwrap();
        assert_eq!(parsed.name, b"disk");
        assert!(parsed.asks_for(INFO_NAME) && parsed.asks_for(INFO_BLOCK_SIZE) && !parsed.asks_for(2));
    }

    #[test]
    fn every_cut_and_every_added_byte_is_refused() {
        let data = query(b"disk", &[1, 3]);
        for cut in 0..data.len() {
            assert_eq!(InfoQuery::parse(&data[..cut]), None, "cut at {cut}");
        }
        assert_eq!(InfoQuery::parse(&[&data[..], b"x"].concat()), None);
    }

    proptest! {
        #[test]
        fn random_queries_never_panic_and_never_reach_outside(data in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Some(query) = InfoQuery::parse(&data) {
                prop_assert_eq!(4 + query.name.len() + 2 + query.requests.len(), data.len());
            }
        }
    }
}
