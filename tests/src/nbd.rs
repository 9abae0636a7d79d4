//! A small NBD client that can also misbehave.
//!
//! Purpose: tests of the `nbd` driver need a client that says exactly the bytes they want. It is written from the
//! protocol document (fixed newstyle, simple replies) and shares no code with the driver, so a mistake in the
//! driver's constants cannot hide here. [`Client`] is the well-behaved part; the builders [`option`] and [`request`]
//! give the bytes for everything else.
//!
//! Every read has a limit, so a server that never answers fails the test and does not hang it.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    path::PathBuf,
    time::Duration,
};

use crate::process::HANG_LIMIT;

/// First eight bytes of a server.
pub const GREETING_MAGIC: u64 = u64::from_be_bytes(*b"NBDMAGIC");
/// Starts each option of a client; the server's second word.
pub const OPTION_MAGIC: u64 = u64::from_be_bytes(*b"IHAVEOPT");
/// Starts each answer to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Starts each request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Starts each simple reply.
pub const REPLY_MAGIC: u32 = 0x6744_6698;

/// Flags by which a client of the fixed newstyle greets: fixed newstyle, no zeroes after EXPORT_NAME.
pub const CLIENT_FLAGS: u32 = 0b11;

/// Option: choose an export, the old way.
pub const OPT_EXPORT_NAME: u32 = 1;
/// Option: end the negotiation.
pub const OPT_ABORT: u32 = 2;
/// Option: list the exports.
pub const OPT_LIST: u32 = 3;
/// Option: describe an export.
pub const OPT_INFO: u32 = 6;
/// Option: describe an export and begin to use it.
pub const OPT_GO: u32 = 7;

/// Option reply: done.
pub const REP_ACK: u32 = 1;
/// Option reply: one export of a list.
pub const REP_SERVER: u32 = 2;
/// Option reply: one piece of information.
pub const REP_INFO: u32 = 3;
/// Option reply: the option is not known.
pub const REP_ERR_UNSUP: u32 = 1 << 31 | 1;
/// Option reply: the option's data is malformed.
pub const REP_ERR_INVALID: u32 = 1 << 31 | 3;
/// Option reply: no such export.
pub const REP_ERR_UNKNOWN: u32 = 1 << 31 | 6;
/// Option reply: the option's data is too long.
pub const REP_ERR_TOO_BIG: u32 = 1 << 31 | 9;

/// Command: read.
pub const CMD_READ: u16 = 0;
/// Command: write.
pub const CMD_WRITE: u16 = 1;
/// Command: disconnect.
pub const CMD_DISC: u16 = 2;
/// Command: flush.
pub const CMD_FLUSH: u16 = 3;
/// Command: trim.
pub const CMD_TRIM: u16 = 4;
/// Command: write zeroes.
pub const CMD_WRITE_ZEROES: u16 = 6;
/// Command flag: the data is stable before the reply comes.
pub const FLAG_FUA: u16 = 1;

/// Reply error: the request makes no sense.
pub const EINVAL: u32 = 22;
/// Reply error: past the end of the device.
pub const ENOSPC: u32 = 28;
/// Reply error: longer than the server takes.
pub const EOVERFLOW: u32 = 75;
/// Reply error: the command is not known.
pub const ENOTSUP: u32 = 95;

/// Where a server listens and what it exports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The socket.
    pub socket: Socket,
    /// The name of the export.
    pub export: String,
}

/// The socket part of an [`Address`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Socket {
    /// `HOST:PORT`.
    Tcp(String),
    /// The path of a socket file.
    Unix(PathBuf),
}

impl Address {
    /// Takes `nbd://HOST:PORT/EXPORT` or `nbd+unix:///EXPORT?socket=PATH` apart.
    ///
    /// # Panics
    /// When `uri` is neither.
    #[track_caller]
    pub fn parse(uri: &str) -> Self {
        if let Some((host, export)) = uri.strip_prefix("nbd://").and_then(|rest| rest.split_once('/')) {
            return Self { socket: Socket::Tcp(host.to_owned()), export: export.to_owned() };
        }
        if let Some((export, path)) = uri.strip_prefix("nbd+unix:///").and_then(|rest| rest.split_once("?socket=")) {
            return Self { socket: Socket::Unix(path.into()), export: export.to_owned() };
        }
        panic!("not an NBD address: {uri}")
    }

    /// Opens a connection and says nothing on it.
    pub fn connect(&self) -> io::Result<Stream> {
        let stream = match &self.socket {
            Socket::Tcp(host) => {
                let stream = TcpStream::connect(host.as_str())?;
                stream.set_nodelay(true)?;
                Stream::Tcp(stream)
            }
            Socket::Unix(path) => Stream::Unix(UnixStream::connect(path)?),
        };
        stream.set_read_limit(HANG_LIMIT)?;
        Ok(stream)
    }
}

/// A raw connection.
#[derive(Debug)]
pub enum Stream {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over a Unix socket.
    Unix(UnixStream),
}

impl Stream {
    /// Ends a read that waits longer than `limit` with an error.
    pub fn set_read_limit(&self, limit: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_read_timeout(Some(limit)),
            Self::Unix(stream) => stream.set_read_timeout(Some(limit)),
        }
    }

    /// Makes reads and writes return `WouldBlock` where they would wait.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_nonblocking(nonblocking),
            Self::Unix(stream) => stream.set_nonblocking(nonblocking),
        }
    }

    /// Says that nothing more will be written.
    pub fn finish_writing(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(std::net::Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(std::net::Shutdown::Write),
        }
    }

    /// Reads and drops everything until the server closes the connection.
    ///
    /// # Panics
    /// When it does not within [`HANG_LIMIT`].
    #[track_caller]
    pub fn expect_closed(&mut self) {
        let mut buffer = [0; 4096];
        loop {
            match self.read(&mut buffer) {
                Ok(0) => return,
                Ok(_) => {}
                // A server that closes while bytes of ours are unread resets the connection; that is closed too.
                Err(error) if is_end(&error) => return,
                Err(error) => panic!("the server did not close the connection: {error}"),
            }
        }
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads two bytes, big end first.
    pub fn u16(&mut self) -> io::Result<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// Reads four bytes, big end first.
    pub fn u32(&mut self) -> io::Result<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads eight bytes, big end first.
    pub fn u64(&mut self) -> io::Result<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Reads the server's greeting and answers it.
    ///
    /// # Panics
    /// When it is not the greeting of a fixed newstyle server.
    #[track_caller]
    pub fn greet(&mut self) -> io::Result<()> {
        assert_eq!(self.u64()?, GREETING_MAGIC);
        assert_eq!(self.u64()?, OPTION_MAGIC);
        assert_eq!(self.u16()? & 0b11, 0b11, "fixed newstyle and no-zeroes are offered");
        self.write_all(&CLIENT_FLAGS.to_be_bytes())
    }

    /// Reads one answer to the option `number`: its type and its data.
    ///
    /// # Panics
    /// When it answers something else.
    #[track_caller]
    pub fn option_reply(&mut self, number: u32) -> io::Result<(u32, Vec<u8>)> {
        assert_eq!(self.u64()?, OPTION_REPLY_MAGIC);
        assert_eq!(self.u32()?, number);
        let kind = self.u32()?;
        let mut data = vec![0; self.u32()? as usize];
        self.read_exact(&mut data)?;
        Ok((kind, data))
    }

    /// Reads the head of one reply: its error number and cookie. The data of a successful read follows.
    ///
    /// # Panics
    /// When it is no simple reply.
    #[track_caller]
    pub fn reply(&mut self) -> io::Result<(u32, u64)> {
        assert_eq!(self.u32()?, REPLY_MAGIC);
        Ok((self.u32()?, self.u64()?))
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(buffer),
            Self::Unix(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether `error` is how a closed connection shows.
pub fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// The bytes of an option whose length says `length`, which need not be the truth.
pub fn option_with_length(number: u32, length: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend(number.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes.extend(data);
    bytes
}

/// The bytes of a well-formed option.
pub fn option(number: u32, data: &[u8]) -> Vec<u8> {
    option_with_length(number, data.len() as u32, data)
}

/// The data of a GO or INFO option that asks for nothing special.
pub fn export_data(export: &str) -> Vec<u8> {
    let mut data = (export.len() as u32).to_be_bytes().to_vec();
    data.extend(export.as_bytes());
    data.extend([0, 0]);
    data
}

/// The 28 bytes that head a request.
pub fn request(command: u16, flags: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

/// A well-behaved client with one request in flight.
#[derive(Debug)]
pub struct Client {
    stream: Stream,
    size: u64,
    cookie: u64,
}

impl Client {
    /// Connects and chooses the export.
    ///
    /// # Panics
    /// When the server greets or answers against the protocol.
    #[track_caller]
    pub fn connect(address: &Address) -> io::Result<Self> {
        let mut stream = address.connect()?;
        stream.greet()?;
        stream.write_all(&option(OPT_GO, &export_data(&address.export)))?;
        let mut size = None;
        loop {
            match stream.option_reply(OPT_GO)? {
                (REP_INFO, data) if data.starts_with(&[0, 0]) => {
                    size = Some(u64::from_be_bytes(data[2..10].try_into().expect("eight bytes")));
                }
                (REP_INFO, _) => {}
                (REP_ACK, _) => break,
                (kind, data) => panic!("GO was answered with {kind:#x}: {}", String::from_utf8_lossy(&data)),
            }
        }
        Ok(Self { stream, size: size.expect("GO tells the size before it is done"), cookie: 0 })
    }

    /// The size of the device in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The connection, for what a decent client would not do on it.
    pub fn stream(&mut self) -> &mut Stream {
        &mut self.stream
    }

    /// Sends one request and returns the error number of its reply, 0 for success.
    pub fn command(&mut self, command: u16, flags: u16, offset: u64, length: u32, data: &[u8]) -> io::Result<u32> {
        self.cookie += 1;
        self.stream.write_all(&request(command, flags, self.cookie, offset, length))?;
        self.stream.write_all(data)?;
        let (error, cookie) = self.stream.reply()?;
        assert_eq!(cookie, self.cookie, "one request was in flight");
        Ok(error)
    }

    /// Writes `data` at `offset`.
    ///
    /// # Panics
    /// When the server answers with an error.
    #[track_caller]
    pub fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        let error = self.command(CMD_WRITE, 0, offset, data.len() as u32, data)?;
        assert_eq!(error, 0, "write of {} bytes at {offset}", data.len());
        Ok(())
    }

    /// Reads `length` bytes at `offset`.
    ///
    /// # Panics
    /// When the server answers with an error.
    #[track_caller]
    pub fn read(&mut self, offset: u64, length: u32) -> io::Result<Vec<u8>> {
        let error = self.command(CMD_READ, 0, offset, length, &[])?;
        assert_eq!(error, 0, "read of {length} bytes at {offset}");
        let mut data = vec![0; length as usize];
        self.stream.read_exact(&mut data)?;
        Ok(data)
    }

    /// Says goodbye and waits until the server has closed the connection.
    #[track_caller]
    pub fn disconnect(mut self) -> io::Result<()> {
        self.stream.write_all(&request(CMD_DISC, 0, 0, 0, 0))?;
        self.stream.expect_closed();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_an_address_are_taken_apart() {
        assert_eq!(
            Address::parse("nbd://127.0.0.1:10809/ramdisk"),
            Address { socket: Socket::Tcp("127.0.0.1:10809".to_owned()), export: "ramdisk".to_owned() }
        );
        assert_eq!(
            Address::parse("nbd+unix:///ramdisk?socket=/run/x.sock"),
            Address { socket: Socket::Unix("/run/x.sock".into()), export: "ramdisk".to_owned() }
        );
    }

    #[test]
    fn a_request_is_28_bytes_with_the_big_end_first() {
        let bytes = request(CMD_WRITE, FLAG_FUA, 2, 3, 4);
        assert_eq!(bytes.len(), 28);
        assert_eq!(bytes[..8], [0x25, 0x60, 0x95, 0x13, 0, 1, 0, 1]);
        assert_eq!(bytes[8..], [0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 4]);
    }
}
