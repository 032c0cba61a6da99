export type Dialect = "rfc9309" | "google" | "koster1996" | "selfhtml" | "strictest";

export type Reason =
  | "rule" | "no-matching-rule" | "no-matching-group" | "robots-txt-itself"
  | "unavailable" | "redirect-lost" | "unreachable" | "too-costly";

export interface CrawlerOptions {
  /** Default: `rfc9309`. `strictest` disallows what any of the four does. */
  dialect?: Dialect;
  /** Whether to judge every spelling that a server may treat as the same path, such as `/a/../b`. */
  allSpellings?: boolean;
}

/** A decision with its reason. */
export interface Decision {
  allowed: boolean;
  reason: Reason;
  /** The deciding rule, such as `Disallow: /private`. */
  rule?: string;
  /** The line of the deciding rule, from 1. */
  line?: number;
  /** The names on the user-agent lines of the group used. */
  group: string[];
  /** The dialect that gave the verdict; of `strictest`, the one of the four that it comes from. */
  dialect: Dialect;
}

/** The rules of one robots.txt for one crawler. */
export declare class CrawlerRules {
  private constructor();
  /**
   * Returns whether the crawler may fetch a URL, of which only path and query count. A path alone will do. Throws for
   * what is not a URL, such as `mailto:a@example.com`.
   */
  allows(url: string): boolean;
  /** Returns the decision about a URL with its reason. Throws for what is not a URL. */
  decide(url: string): Decision;
  /** The seconds to wait between two requests. */
  get crawlDelay(): number | null;
}

/** A parsed robots.txt. Any bytes parse. */
export declare class RobotsTxt {
  constructor(data: Uint8Array | string);
  /** Returns the outcome of a fetch with this status: 404 and its like allow everything; 429 and 5xx disallow everything. */
  static fromStatus(status: number, data?: Uint8Array | string): RobotsTxt;
  /** Returns the outcome of a fetch that failed, which disallows everything. */
  static unreachable(): RobotsTxt;
  /** Returns the rules for a crawler, given its product tokens in order of preference. */
  forCrawler(names: string | string[], options?: CrawlerOptions): CrawlerRules;
  get sitemaps(): string[];
}
