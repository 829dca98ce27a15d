//! A login in which neither side tells the password: RFC 5802 and RFC 7677.

use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac, pbkdf2};

/// A server that asks for more would make a login last for seconds; one that asks for less would make it easy
/// to find out the password.
const ITERATIONS: std::ops::RangeInclusive<u32> = 4096..=1_000_000;

/// The hash that is used.
#[derive(Clone, Copy)]
pub(crate) enum Hash {
    Sha256,
    Sha512,
}

/// A login that has begun.
pub(crate) struct Scram<'a> {
    hash: Hash,
    password: &'a str,
    nonce: &'a str,
    /// The first message, without what stands before the user.
    first: String,
}

/// What a client says in the end, and what a server answers that knows the password too.
pub(crate) struct Proof {
    pub(crate) message: String,
    pub(crate) answer: String,
}

impl<'a> Scram<'a> {
    /// `nonce` is a text that nobody can guess, without commas.
    pub(crate) fn begin(hash: Hash, (user, password): (&str, &'a str), nonce: &'a str) -> Scram<'a> {
        let user = user.replace('=', "=3D").replace(',', "=2C");
        Scram { hash, password, nonce, first: format!("n={user},r={nonce}") }
    }

    /// The first message.
    pub(crate) fn first(&self) -> String {
        format!("n,,{}", self.first)
    }

    /// Answers the first message of the server. None if that has another form.
    pub(crate) fn prove(&self, server: &str) -> Option<Proof> {
        let mut parts = server.split(',');
        let mut part = |name: &str| parts.next()?.strip_prefix(name);
        let (nonce, salt, iterations) = (part("r=")?, part("s=")?, part("i=")?);
        if !nonce.starts_with(self.nonce) || nonce == self.nonce {
            return None;
        }
        let salt = STANDARD.decode(salt).ok()?;
        let iterations = iterations.parse().ok().filter(|iterations| ITERATIONS.contains(iterations))?;
        let last = format!("c=biws,r={nonce}");
        let said = format!("{},{server},{last}", self.first);
        let (derivation, keyed, hashed, length) = match self.hash {
            Hash::Sha256 => (pbkdf2::PBKDF2_HMAC_SHA256, hmac::HMAC_SHA256, &digest::SHA256, 32),
            Hash::Sha512 => (pbkdf2::PBKDF2_HMAC_SHA512, hmac::HMAC_SHA512, &digest::SHA512, 64),
        };
        let mut salted = vec![0; length];
        pbkdf2::derive(
            derivation,
            NonZeroU32::new(iterations)?,
            &salt,
            self.password.as_bytes(),
            &mut salted,
        );
        let sign = |key: &[u8], text: &str| hmac::sign(&hmac::Key::new(keyed, key), text.as_bytes());
        let client = sign(&salted, "Client Key");
        let signature = sign(digest::digest(hashed, client.as_ref()).as_ref(), &said);
        let pairs = client.as_ref().iter().zip(signature.as_ref());
        let proof: Vec<u8> = pairs.map(|(key, signature)| key ^ signature).collect();
        let answer = sign(sign(&salted, "Server Key").as_ref(), &said);
        Some(Proof {
            message: format!("{last},p={}", STANDARD.encode(proof)),
            answer: format!("v={}", STANDARD.encode(answer)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Hash, Scram};

    /// The example of RFC 7677.
    #[test]
    fn a_login_is_that_of_the_standard() {
        let scram = Scram::begin(Hash::Sha256, ("user", "pencil"), "rOprNGfwEbeRWgbNEkqO");
        assert_eq!(scram.first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let server = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let proof = scram.prove(server).unwrap();
        assert!(proof.message.ends_with(",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="));
        assert_eq!(proof.answer, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        for wrong in [
            "",
            "r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            "r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            "r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1",
            "r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4294967295",
            "r=rOprNGfwEbeRWgbNEkqOx,s=?,i=4096",
        ] {
            assert!(scram.prove(wrong).is_none(), "{wrong}");
        }
        let other = Scram::begin(Hash::Sha512, ("a=b,c", "p"), "x");
        assert_eq!(other.first(), "n,,n=a=3Db=2Cc,r=x");
    }
}
