//! Cryptographic primitives, each in one place: AES-256-GCM and HKDF-SHA256 by ring, X25519 by
//! curve25519-dalek.

use curve25519_dalek::montgomery::MontgomeryPoint;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use ring::rand::{SecureRandom, SystemRandom};

use crate::Error;

/// A secret or public key of any kind.
pub(crate) type Bytes32 = [u8; 32];
/// Bytes of an authentication tag.
pub(crate) const TAG: usize = 16;

/// The only source of randomness.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| Error::NoRandom)?;
    Ok(bytes)
}

struct Length;

impl KeyType for Length {
    fn len(&self) -> usize {
        32
    }
}

/// HKDF-SHA256 (RFC 5869) with 32 bytes of output.
pub(crate) fn derive(secret: &[u8], salt: &[u8], info: &[&[u8]]) -> Bytes32 {
    let mut out = [0; 32];
    let extracted = Salt::new(HKDF_SHA256, salt).extract(secret);
    let filled = extracted.expand(info, Length).and_then(|okm| okm.fill(&mut out));
    // Both fail only for more than 8160 bytes, or a buffer of another length.
    debug_assert!(filled.is_ok());
    out
}

/// X25519 (RFC 7748). `None` if the result is zeros: then the point is not a key.
pub(crate) fn shared_secret(secret: &Bytes32, public: &Bytes32) -> Option<Bytes32> {
    let shared = MontgomeryPoint(*public).mul_clamped(*secret).to_bytes();
    (shared != [0; 32]).then_some(shared)
}

/// The public half of an X25519 key.
pub(crate) fn public(secret: &Bytes32) -> Bytes32 {
    MontgomeryPoint::mul_base_clamped(*secret).to_bytes()
}

/// AES-256-GCM with one key. Each nonce may be used once.
pub(crate) struct Cipher(LessSafeKey);

impl Cipher {
    pub(crate) fn new(key: &Bytes32) -> Result<Cipher, Error> {
        let key = UnboundKey::new(&AES_256_GCM, key).map_err(|_| Error::Damaged("wrong key length"))?;
        Ok(Cipher(LessSafeKey::new(key)))
    }

    /// Encrypts `bytes` from `start` on, and appends the tag.
    pub(crate) fn seal(
        &self,
        nonce: [u8; 12],
        context: &[u8],
        bytes: &mut Vec<u8>,
        start: usize,
    ) -> Result<(), Error> {
        let nonce = Nonce::assume_unique_for_key(nonce);
        let open = bytes.get_mut(start..).unwrap_or_default();
        let tag = self.0.seal_in_place_separate_tag(nonce, Aad::from(context), open);
        let tag = tag.map_err(|_| Error::Damaged("too long to be sealed at once"))?;
        bytes.extend_from_slice(tag.as_ref());
        Ok(())
    }

    /// Decrypts bytes in place. `None`: they were not sealed in this way.
    pub(crate) fn open(&self, nonce: [u8; 12], context: &[u8], mut bytes: Vec<u8>) -> Option<Vec<u8>> {
        let nonce = Nonce::assume_unique_for_key(nonce);
        let len = self.0.open_in_place(nonce, Aad::from(context), &mut bytes).ok()?.len();
        bytes.truncate(len);
        Some(bytes)
    }
}

/// Seals a few bytes so that only the holder of the secret half of a public key can open them. Each call uses
/// an ephemeral key.
pub(crate) fn seal_to(
    public_key: &Bytes32,
    purpose: &[u8],
    context: &[u8],
    plain: &[u8],
) -> Result<Vec<u8>, Error> {
    let (key, sent) = send_key(public_key, purpose)?;
    let mut out = sent.to_vec();
    out.extend_from_slice(plain);
    Cipher::new(&key)?.seal([0; 12], context, &mut out, 32)?;
    Ok(out)
}

/// Opens what [`seal_to`] made.
pub(crate) fn open_from(secret: &Bytes32, purpose: &[u8], context: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    let (sent, rest) = sealed.split_first_chunk::<32>()?;
    let key = receive_key(secret, sent, purpose)?;
    Cipher::new(&key).ok()?.open([0; 12], context, rest.to_vec())
}

/// A new key, and the ephemeral public key with which the holder of the secret half of `public_key` derives
/// it too. Nobody else can derive it from these.
pub(crate) fn send_key(public_key: &Bytes32, purpose: &[u8]) -> Result<(Bytes32, Bytes32), Error> {
    let secret = random()?;
    let shared = shared_secret(&secret, public_key).ok_or(Error::Damaged("invalid public key"))?;
    let sent = public(&secret);
    Ok((derive_shared(&shared, &sent, public_key, purpose), sent))
}

/// Derives the key that [`send_key`] created.
pub(crate) fn receive_key(secret: &Bytes32, sent: &Bytes32, purpose: &[u8]) -> Option<Bytes32> {
    Some(derive_shared(&shared_secret(secret, sent)?, sent, &public(secret), purpose))
}

fn derive_shared(shared: &Bytes32, sent: &Bytes32, public_key: &Bytes32, purpose: &[u8]) -> Bytes32 {
    derive(shared, &[*sent, *public_key].concat(), &[purpose])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{from_hex, to_hex};

    fn bytes32(text: &str) -> Bytes32 {
        from_hex(text).unwrap().try_into().unwrap()
    }

    /// RFC 5869, A.1 and A.3, cut to 32 bytes: the output of another length begins in the same way.
    #[test]
    fn hkdf_is_that_of_the_rfc() {
        let found = derive(
            &[0x0b; 22],
            &from_hex("000102030405060708090a0b0c").unwrap(),
            &[&from_hex("f0f1f2f3f4f5f6f7f8f9").unwrap()],
        );
        assert_eq!(to_hex(&found), "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf");
        let found = derive(&[0x0b; 22], &[], &[]);
        assert_eq!(to_hex(&found), "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d");
    }

    /// RFC 7748, 6.1.
    #[test]
    fn x25519_is_that_of_the_rfc() {
        let alice = bytes32("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a");
        let bob = bytes32("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb");
        let of_alice = "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a";
        let of_bob = "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f";
        assert_eq!(
            (to_hex(&public(&alice)), to_hex(&public(&bob))),
            (of_alice.to_owned(), of_bob.to_owned())
        );
        let shared = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742";
        assert_eq!(to_hex(&shared_secret(&alice, &public(&bob)).unwrap()), shared);
        assert_eq!(to_hex(&shared_secret(&bob, &public(&alice)).unwrap()), shared);
        assert_eq!(shared_secret(&alice, &[0; 32]), None, "a point that makes every secret zeros");
    }

    /// Test case 16 of McGrew and Viega, "The Galois/Counter Mode of Operation", which RFC 5288 refers to.
    #[test]
    fn aes_gcm_is_that_of_its_specification() {
        let key = bytes32("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308");
        let nonce = from_hex("cafebabefacedbaddecaf888").unwrap().try_into().unwrap();
        let context = from_hex("feedfacedeadbeeffeedfacedeadbeefabaddad2").unwrap();
        let plain = from_hex(
            "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
             1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
        )
        .unwrap();
        let mut sealed = plain.clone();
        let cipher = Cipher::new(&key).unwrap();
        cipher.seal(nonce, &context, &mut sealed, 0).unwrap();
        let wanted = "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa\
                      8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662\
                      76fc6ece0f4e1768cddf8853bb2d551b";
        assert_eq!(to_hex(&sealed), wanted);
        assert_eq!(cipher.open(nonce, &context, sealed), Some(plain));
    }

    #[test]
    fn sealed_data_open_for_one_key_purpose_and_subject() {
        let (mine, other) = ([7; 32], [8; 32]);
        let sealed = seal_to(&public(&mine), b"purpose", b"about", b"hello").unwrap();
        assert_eq!(open_from(&mine, b"purpose", b"about", &sealed).as_deref(), Some(&b"hello"[..]));
        assert_eq!(open_from(&other, b"purpose", b"about", &sealed), None);
        assert_eq!(open_from(&mine, b"another", b"about", &sealed), None);
        assert_eq!(open_from(&mine, b"purpose", b"other", &sealed), None);
        for at in 0..sealed.len() {
            let mut bad = sealed.clone();
            bad[at] ^= 1;
            // The highest bit of a point does not count in X25519, but the key depends on its bytes.
            assert_eq!(open_from(&mine, b"purpose", b"about", &bad), None, "byte {at}");
        }
        let again = seal_to(&public(&mine), b"purpose", b"about", b"hello").unwrap();
        assert_ne!(again, sealed, "a key of its own for each");
    }
}
