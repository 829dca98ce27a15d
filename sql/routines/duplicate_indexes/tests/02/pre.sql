CREATE TABLE rt.t (a INT, b INT, KEY up_down (a, b DESC), KEY up_up (a, b), KEY down (a DESC), KEY hidden (b, a) IGNORED, KEY seen (b));
