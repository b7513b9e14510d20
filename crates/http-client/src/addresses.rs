//! Which addresses are public, and ranges that name those that are not. Pure.
//!
//! A name says nothing about where it leads: its owner can point it at this machine, at its
//! neighbours or at a cloud's metadata service. So the check is on the address that is connected
//! to: one that is not public is reached only if a grant names its range (D11).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A range of addresses: `10.0.0.0/8`, `fd00::/8`, or one address alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

/// A text that is not a range of addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a range of addresses such as 10.0.0.0/8 or fd00::/8")]
pub struct NetworkError(String);

impl Network {
    /// This machine: `127.0.0.0/8` and `::1`.
    pub fn loopback() -> [Self; 2] {
        [
            Self::v4([127, 0, 0, 0], 8),
            Self { address: IpAddr::V6(Ipv6Addr::LOCALHOST), prefix: 128 },
        ]
    }

    /// The private ranges of RFC 1918 and RFC 4193. Neither this machine, nor link-local addresses
    /// (a cloud's metadata service has one), nor a carrier's `100.64.0.0/10`.
    pub fn private() -> [Self; 4] {
        let unique_local = Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0);
        [
            Self::v4([10, 0, 0, 0], 8),
            Self::v4([172, 16, 0, 0], 12),
            Self::v4([192, 168, 0, 0], 16),
            Self { address: IpAddr::V6(unique_local), prefix: 7 },
        ]
    }

    const fn v4(octets: [u8; 4], prefix: u8) -> Self {
        let [a, b, c, d] = octets;
        Self { address: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), prefix }
    }

    /// Whether the address is in it. `::ffff:10.0.0.1` is `10.0.0.1`.
    pub fn contains(&self, address: IpAddr) -> bool {
        let shifted = |bits: u128, width: u8| bits.checked_shr(u32::from(width - self.prefix));
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                shifted(own.to_bits().into(), 32) == shifted(other.to_bits().into(), 32)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                shifted(own.to_bits(), 128) == shifted(other.to_bits(), 128)
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let wrong = || NetworkError(text.to_owned());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            Some(prefix) => prefix.parse().ok().filter(|p| *p <= width).ok_or_else(wrong)?,
            None => width,
        };
        // A single mapped address is the IPv4 address that it stands for; a range of mapped
        // addresses is refused, since it would never match.
        match address.to_canonical() {
            canonical if canonical == address => Ok(Self { address, prefix }),
            canonical if prefix == 128 => Ok(Self { address: canonical, prefix: 32 }),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// What kind of address it is, unless it is public.
pub(crate) fn not_public(address: IpAddr) -> Option<&'static str> {
    match address.to_canonical() {
        IpAddr::V4(address) => v4_not_public(address),
        IpAddr::V6(address) => v6_not_public(address),
    }
}

fn v4_not_public(address: Ipv4Addr) -> Option<&'static str> {
    Some(match address.octets() {
        [0, ..] => "an unspecified address",
        [127, ..] => "a loopback address",
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => "a private address",
        [100, 64..=127, ..] => "a carrier's private address",
        [169, 254, ..] => "a link-local address",
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => "a documentation address",
        [224..=239, ..] => "a multicast address",
        [255, 255, 255, 255] => "the broadcast address",
        [192, 0, 0, _] | [192, 88, 99, _] | [198, 18..=19, ..] | [240..=255, ..] => {
            "a reserved address"
        }
        _ => return None,
    })
}

/// Only 2000::/3 is in public use; an address in it that carries an IPv4 address is as public as
/// the IPv4 address.
fn v6_not_public(address: Ipv6Addr) -> Option<&'static str> {
    let segments = address.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    Some(match segments {
        [0, 0, 0, 0, 0, 0, 0, 0] => "an unspecified address",
        [0, 0, 0, 0, 0, 0, 0, 1] => "a loopback address",
        [0, 0, 0, 0, 0, 0, _, _] => "an IPv4-compatible address",
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            return v4_not_public(v4(high, low));
        }
        [0xfc00..=0xfdff, ..] => "a private address",
        [0xfe80..=0xfebf, ..] => "a link-local address",
        [0xff00..=0xffff, ..] => "a multicast address",
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => "a documentation address",
        [0x2001, 0..=0x1ff, ..] => "a reserved address",
        [0x2000..=0x3fff, ..] => return None,
        _ => "a reserved address",
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kind(address: &str) -> Option<&'static str> {
        not_public(address.parse().unwrap())
    }

    #[test]
    fn what_is_not_public_is_known() {
        let not_public = [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.0",
            "10.255.255.255",
            "100.64.0.0",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::2",
            "::10.0.0.1",
            "::8.8.8.8",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:0:10.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "2002:a9fe:a9fe::",
            "3fff::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "5f00::1",
            "4000::1",
        ];
        for address in not_public {
            assert!(kind(address).is_some(), "{address} is not public");
        }
        let public = [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.1",
            "169.253.0.1",
            "169.255.0.1",
            "172.15.255.255",
            "172.32.0.1",
            "192.0.1.1",
            "192.167.1.1",
            "192.169.1.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
            "2606:4700::1111",
            "2a00::1",
            "2001:200::1",
            "2001:4860::8888",
        ];
        for address in public {
            assert_eq!(kind(address), None, "{address} is public");
        }
    }

    #[test]
    fn a_network_is_read_and_written() {
        for text in ["10.0.0.0/8", "0.0.0.0/0", "127.0.0.1/32", "fd00::/8", "::/0", "::1/128"] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), text);
        }
        assert_eq!("10.1.2.3".parse::<Network>().unwrap().to_string(), "10.1.2.3/32");
        assert_eq!("::ffff:10.1.2.3".parse::<Network>().unwrap().to_string(), "10.1.2.3/32");
        for text in
            ["", "/8", "10.0.0.0/33", "::/129", "10.0.0/8", "a/8", "10.0.0.0/-1", "::ffff:0:0/96"]
        {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_network_contains_its_own() {
        let contains = |network: &str, address: &str| {
            network.parse::<Network>().unwrap().contains(address.parse().unwrap())
        };
        assert!(contains("10.0.0.0/8", "10.255.0.1"));
        assert!(contains("10.0.0.0/8", "::ffff:10.255.0.1"));
        assert!(!contains("10.0.0.0/8", "11.0.0.1"));
        assert!(!contains("10.0.0.0/8", "fd00::1"));
        assert!(contains("0.0.0.0/0", "255.0.0.1"));
        assert!(contains("::/0", "fd00::1"));
        assert!(!contains("::/0", "1.2.3.4"));
        assert!(contains("::1", "::1") && !contains("::1", "::2"));
        assert!(Network::private().iter().all(|n| !n.contains("169.254.169.254".parse().unwrap())));
    }

    proptest! {
        /// However an IPv4 address is wrapped in an IPv6 one, the IPv4 address counts.
        #[test]
        fn a_wrapped_address_is_no_more_public(bits in any::<u32>()) {
            let v4 = Ipv4Addr::from_bits(bits);
            let [a, b, c, d] = v4.octets();
            let own = not_public(v4.into());
            prop_assert_eq!(not_public(v4.to_ipv6_mapped().into()), own);
            let nat = Ipv6Addr::from_bits((0x64_u128 << 112) | (0xff9b_u128 << 96) | u128::from(bits));
            prop_assert_eq!(not_public(nat.into()), own);
            let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            prop_assert_eq!(not_public(Ipv6Addr::new(0x2002, high, low, 1, 2, 3, 4, 5).into()), own);
        }
    }
}
