const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

/** `7.62B`: a number of parameters as model names write it; "" where it isn't known. */
export function paramsText(parameters: number): string {
  return parameters > 0 ? short.format(parameters) : "";
}

/** `1.2M`. */
export const roundText = (value: number): string => short.format(value);
