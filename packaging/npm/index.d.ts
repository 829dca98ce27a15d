/** The path of the program for this machine. Throws if it was not installed. */
export function program(): string;
